import { expect, test } from "vitest";
import { toSamples } from "../../src/export/samples.ts";
import { openTestPaddock } from "../fixtures/paddock.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";

test("a sub-agent, a compaction and a title call are told apart, and no title token is trained on", async () => {
	await using station = await openTestPaddock();
	const flood = bash("head -c 24000 /dev/zero | tr '\\0' 'x' | fold -w 100");
	await using model = await openScriptedModel([delegate, flood, flood, bash("echo on"), say("done")], {
		subagentSteps: [bash("ls"), say("nothing there")],
	});
	const result = await station.run({
		task: task(),
		endpoint: model.endpoint,
		agent: { title: true, compaction: true, contextTokens: 24_000, outputTokens: 2_000 },
	});
	expect(result.outcome).toBe("completed");
	const calls = await Array.fromAsync(station.paddock.calls(result.rollout_id));
	expect(new Set(calls.map((call) => call.purpose))).toEqual(
		new Set(["main", "subagent", "title", "compaction"]),
	);
	// What the agent says in earnest is admitted whole; tool_choice without tools is refused by engines.
	const leftOut = calls.flatMap(({ request }) =>
		Object.keys(request.patch).filter((name) => request.patch[name] === null),
	);
	expect(new Set(leftOut).difference(new Set(["tool_choice"]))).toEqual(new Set());
	const captured = sum(calls.map((call) => call.completionIds.length));
	expect(captured).toBe(sum(calls.map((call) => call.usage?.completionTokens ?? 0)));

	const { samples, certificate } = await toSamples(calls);
	const trainable = calls.filter((call) => call.purpose === "main" || call.purpose === "subagent");
	expect(sum(samples.flatMap((sample) => sample.mask))).toBe(
		sum(trainable.map((call) => call.completionIds.length)),
	);
	expect(samples.map((sample) => sample.purpose)).not.toContain("title");
	expect(samples.some((sample) => sample.purpose === "subagent")).toBe(true);
	expect(samples.some((sample) => sample.startedBy?.reason === "compaction")).toBe(true);
	expect(certificate).toMatchObject({ trainable: true, reasons: [] });
});

const delegate = {
	calls: [{ tool: "task", args: { description: "look", prompt: "Look around.", subagent_type: "general" } }],
};

const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);
