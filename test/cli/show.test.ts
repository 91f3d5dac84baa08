import { expect, test } from "vitest";
import { headPart, resultsPart } from "../../src/cli/show/parts.ts";
import { withEvent } from "../../src/cli/show/so-far.ts";
import { transcriptPart } from "../../src/cli/show/transcript.ts";
import { toSamples } from "../../src/export/samples.ts";
import type { EventBody } from "../../src/model/event.ts";
import { aCall } from "../export/calls.ts";
import { aRollout } from "../export/shelf.ts";

const tool = (state: Record<string, unknown>) => ({
	info: { role: "assistant" },
	parts: [{ type: "tool", tool: "bash", state }],
});

test("a transcript shows who said what, which tools ran with what, and what they answered", () => {
	const { lines } = transcriptPart(
		[
			{
				info: { role: "user" },
				parts: [
					{ type: "text", text: "do it" },
					{ type: "text", text: "hint", synthetic: true },
				],
			},
			{ info: { role: "assistant" }, parts: [{ type: "step-start" }, { type: "reasoning", text: "hm" }] },
			tool({ status: "completed", input: { command: "ls\npwd", description: "look" }, output: "a\nb\n" }),
			tool({ status: "error", input: { command: "rm" }, error: "no" }),
			{ info: { role: "assistant" }, parts: [{ type: "step-finish" }] },
		],
		null,
		{ full: false },
	);
	expect(lines).toEqual([
		"  user",
		"    do it",
		"  assistant",
		"    ~ hm",
		"  assistant",
		"    → bash ls; pwd",
		"      a",
		"      b",
		"  assistant",
		"    → bash rm",
		"      error: no",
	]);
});

test("long answers are shortened unless all of it is asked for", () => {
	const output = Array.from({ length: 40 }, (_, index) => `line ${index} ${"x".repeat(300)}`).join("\n");
	const short = transcriptPart([tool({ status: "completed", input: {}, output })], null, {
		full: false,
	}).lines;
	const full = transcriptPart([tool({ status: "completed", input: {}, output })], null, { full: true }).lines;
	expect(short.at(-1)).toContain("28 more lines (--full shows them)");
	expect(Math.max(...short.map((line) => line.length))).toBeLessThan(200);
	expect(full).toHaveLength(42);
});

test("hostile output cannot steer the terminal, and odd messages do no harm", () => {
	const hostile = tool({
		status: "completed",
		input: { command: "\x1b[2Jrm" },
		output: "\x1b]0;owned\x07done\x1b[31m",
	});
	const odd = { info: { role: 7 }, parts: [{ type: "tool" }, { type: "text", text: 5 }, {}] } as never;
	const text = transcriptPart([hostile, odd], null, { full: true }).lines.join("\n");
	expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
	expect(text).toContain("done");
});

test("without a transcript the reason stands in its place", () => {
	expect(transcriptPart([], "the agent never started", { full: false }).lines).toEqual([
		"  the agent never started",
	]);
});

test("a failed command shows its exit code and the end of what it said", () => {
	const said = Array.from({ length: 30 }, (_, index) => `line ${index}`).join("\n");
	const result = { cmd: "make\ntest", exitCode: 2, stdout: said, stderr: "", durationS: 1.25 };
	const { lines } = resultsPart("Verification", [result, { ...result, cmd: "true", exitCode: 0 }]);
	expect(lines[0]).toMatch(/failed +1\.3 s {2}make; test {2}\(exit code 2\)$/);
	expect(lines).toHaveLength(12);
	expect(lines.at(-2)).toContain("line 29");
	expect(lines.at(-1)).toMatch(/ok +1\.3 s {2}true$/);
});

test("the head says which share of the tokens is in one piece, how many calls went on, and why others did not", async () => {
	const spoken = { completionTexts: ["a", "b"], logprobs: [-0.1, -0.2] };
	const { certificate } = await toSamples([
		aCall({ index: 0, promptIds: [1, 2], completionIds: [3, 4], ...spoken }),
		aCall({
			index: 1,
			promptIds: [1, 2, 3, 4, 5],
			completionIds: [6, 7],
			...spoken,
			continuity: { stitched: true, parent: 0, how: "respelled", added: 1 },
		}),
		aCall({
			index: 2,
			promptIds: [1, 9],
			completionIds: [8, 9],
			...spoken,
			continuity: { stitched: false, why: "the messages hold more than text" },
		}),
	]);
	const text = headPart(aRollout({ id: "ro_1" }), certificate).lines.join("\n");
	expect(text).toMatch(/main share +66\.6 % of the tokens to train on/);
	expect(text).toMatch(/continuity +1 of 2 later calls went on \(1 stitched\); forks: \w+ \(1\)/);
	expect(text).toMatch(/rendered +anew: the messages hold more than text \(1\)/);
});

test("of a rollout that still runs, its commands so far are known, and the one that runs now", () => {
	const result = { cmd: "true", exitCode: 0, stdout: "", stderr: "", durationS: 1 };
	const seen = (bodies: EventBody[]) =>
		bodies
			.map((body, index) => ({ rolloutId: "ro_1", seq: index + 1, at: index, ...body }))
			.reduce(withEvent, { setup: [], verify: [], now: null });
	const first: EventBody[] = [
		{ type: "rollout-start", attempt: 1, worker: "w" },
		{ type: "setup-start", step: 1, of: 2, cmd: "true" },
		{ type: "setup-end", result },
		{ type: "setup-start", step: 2, of: 2, cmd: "pip install x" },
	];
	expect(seen(first)).toEqual({ setup: [result], verify: [], now: "setup 2/2: pip install x" });
	const again: EventBody[] = [...first, { type: "rollout-start", attempt: 2, worker: "w" }];
	expect(seen(again)).toEqual({ setup: [], verify: [], now: null });
});
