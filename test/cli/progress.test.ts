import { expect, test } from "vitest";
import { advance, elapsedS, newRow, type Row, totalsOf } from "../../src/cli/terminal/progress.ts";
import type { EventBody } from "../../src/model/event.ts";

const play = (row: Row, ...events: [number, EventBody][]): Row =>
	events.reduce(
		(now, [at, body], index) => advance(now, { rolloutId: row.id, seq: index + 1, at, ...body }),
		row,
	);

const call = (promptTokens: number, completionTokens: number): EventBody => ({
	type: "call-end",
	call: {
		index: 0,
		purpose: "main",
		sessionId: null,
		finishReason: "stop",
		promptTokens,
		completionTokens,
		complete: true,
		latencyMs: 5,
		error: null,
	},
});

const start = (attempt: number): EventBody => ({ type: "rollout-start", attempt, worker: "w" });

test("a row follows the event log from the queue to the reward", () => {
	const row = play(
		newRow("r1", "fizzbuzz"),
		[1000, { type: "rollout-queued", taskId: "fizzbuzz" }],
		[2000, start(1)],
		[2100, { type: "phase-start", phase: "agent" }],
		[2200, { type: "call-start", index: 0, purpose: "main" }],
		[2300, call(100, 20)],
		[2400, call(150, 30)],
		[5000, { type: "rollout-end", outcome: "completed", reward: 0.5, failure: null, attempt: 1 }],
	);
	expect(row).toMatchObject({
		phase: "done",
		calls: 2,
		promptTokens: 250,
		completionTokens: 50,
		reward: 0.5,
	});
	expect(elapsedS(row, 99_000)).toBe(3);
});

test("a row says which command of setup or verify runs, for as long as it runs", () => {
	const result = { cmd: "true", exitCode: 0, stdout: "", stderr: "", durationS: 1 };
	const begun = play(
		newRow("r1", "x"),
		[0, start(1)],
		[1, { type: "phase-start", phase: "setup" }],
		[2, { type: "setup-start", step: 2, of: 5, cmd: "pip install x" }],
	);
	expect(begun.step).toBe("2/5: pip install x");
	expect(play(begun, [3, { type: "setup-end", result }]).step).toBeNull();
});

test("a second attempt counts its own calls", () => {
	const row = play(newRow("r1", "x"), [0, start(1)], [1, call(10, 10)], [2, start(2)], [3, call(7, 3)]);
	expect(row).toMatchObject({ attempt: 2, calls: 1, promptTokens: 7, completionTokens: 3, startedAt: 2 });
});

test("totals tell waiting, running and done rollouts apart", () => {
	const waiting = newRow("a", "a");
	const running = play(newRow("b", "b"), [0, start(1)], [1, call(5, 5)]);
	const done = play(running, [
		9,
		{ type: "rollout-end", outcome: "failed", reward: null, failure: null, attempt: 1 },
	]);
	expect(totalsOf([waiting, running, done])).toEqual({
		all: 3,
		queued: 1,
		running: 1,
		done: 1,
		calls: 2,
		promptTokens: 10,
		completionTokens: 10,
	});
});
