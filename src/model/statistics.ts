import { z } from "zod";

const Bar = z.object({ from: z.number(), to: z.number(), count: z.int() });

export const StatisticsBucket = z
	.object({
		at: z.number().describe("When it begins"),
		done: z.int().describe("Rollouts that ended in this time"),
		outcomes: z.record(z.string(), z.int()),
		rewarded: z.int(),
		rewardMean: z.number().nullable(),
		solved: z.int().describe("With a reward of 1 or more"),
		durationMeanS: z.number().nullable(),
		phasesMeanS: z
			.record(z.string(), z.number())
			.describe("queued, create, setup, agent, verify, collect: mean seconds of those that had the phase"),
		calls: z.int(),
		promptTokens: z.number(),
		completionTokens: z.number(),
	})
	.meta({ id: "StatisticsBucket" });
export type StatisticsBucket = z.infer<typeof StatisticsBucket>;

/** How rollouts went over time, by when they ended. */
export const Statistics = z
	.object({
		since: z.number(),
		until: z.number(),
		bucketMs: z.number(),
		counted: z.int().describe("Rollouts that these figures are of"),
		isCut: z.boolean().describe("More ended in this time than are counted: the newest are"),
		buckets: z.array(StatisticsBucket).describe("In order; those in which nothing ended are left out"),
		rewards: z.array(Bar).describe("How many had a reward from … to (the last one up to and with)"),
		durations: z
			.array(Bar.extend({ to: z.number().nullable() }))
			.describe("In seconds; the last one has no end"),
		models: z.array(z.object({ model: z.string(), count: z.int() })).describe("The most frequent first"),
	})
	.meta({ id: "Statistics" });
export type Statistics = z.infer<typeof Statistics>;
