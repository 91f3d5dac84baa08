import { expect, test } from "vitest";
import { TakingWorker } from "../../src/queue/taking-worker.ts";

test("a source that cannot be told of a change says so and loses no work", async () => {
	const threw: unknown[] = [];
	const ended: string[] = [];
	const jobs = ["ro_1", "ro_2"];
	const over = Promise.withResolvers<void>();
	const worker = new TakingWorker(
		{ workerId: "w", capacity: 1, handle: async () => "done" },
		{
			take: async () => jobs.splice(0, 1).map((rolloutId) => ({ rolloutId })),
			ended: async ({ rolloutId }, end) => {
				ended.push(`${rolloutId} ${end}`);
				if (ended.length === 2) over.resolve();
			},
			changed: () => {
				throw new Error("disk full");
			},
			left: async () => {},
			threw: (error) => threw.push(error),
		},
	);
	await worker.fill();
	await over.promise;
	await worker.drain(0);
	expect(ended).toEqual(["ro_1 done", "ro_2 done"]);
	expect(threw).not.toEqual([]);
});

test("what cannot be brought back is brought back later, and takes its room until then", async () => {
	const jobs = ["ro_1", "ro_2"];
	const log: string[] = [];
	const over = Promise.withResolvers<void>();
	let isFull = true;
	const worker = new TakingWorker(
		{
			workerId: "w",
			capacity: 1,
			handle: async ({ rolloutId }) => {
				log.push(`${rolloutId} ran`);
				return "done";
			},
		},
		{
			take: async () => jobs.splice(0, 1).map((rolloutId) => ({ rolloutId })),
			ended: async ({ rolloutId }) => {
				if (isFull) throw new Error("disk full");
				log.push(`${rolloutId} ended`);
				if (rolloutId === "ro_2") over.resolve();
			},
			changed: () => {},
			left: async () => {},
			threw: () => {
				log.push("threw");
				isFull = false;
			},
		},
	);
	await worker.fill();
	await over.promise;
	await worker.drain(0);
	expect(log).toEqual(["ro_1 ran", "threw", "ro_1 ended", "ro_2 ran", "ro_2 ended"]);
});
