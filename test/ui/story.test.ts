import { expect, test } from "vitest";
import type { LogEvent } from "../../src/ui/data/log-event.ts";
import { inRows, ticksOf } from "../../src/ui/data/scale.ts";
import { tellStory } from "../../src/ui/data/story.ts";

let seq = 0;
const event = (at: number, body: object) => ({ seq: ++seq, at, ...body }) as LogEvent;
const start = event(0, { type: "rollout-start", attempt: 1, worker: "w" });
const result = (cmd: string, exitCode: number) => ({ cmd, exitCode, stdout: "", stderr: "", durationS: 1 });

test("a command is told while it runs, and is a bar from its beginning to its end", () => {
	const begun = [start, event(100, { type: "verify-start", step: 1, of: 2, cmd: "npm test" })];
	const running = tellStory(begun);
	expect(running.running).toEqual({ kind: "verify", step: 1, of: 2, cmd: "npm test", startAt: 100 });
	expect(running.spans).toMatchObject([{ lane: "command", label: "npm test", startAt: 100, endAt: null }]);
	const ended = tellStory([...begun, event(900, { type: "verify-end", result: result("npm test", 1) })]);
	expect(ended.running).toBeNull();
	expect(ended.spans).toMatchObject([{ startAt: 100, endAt: 900, isBad: true }]);
	expect(ended.verify).toHaveLength(1);
});

test("a call is counted from 1 and knows when its answer began; calls at once stand in rows of their own", () => {
	const call = { index: 0, purpose: "main", error: null, firstByteMs: 40, latencyMs: 100 };
	const { spans } = tellStory([
		start,
		event(10, { type: "call-start", index: 0, purpose: "main" }),
		event(20, { type: "call-start", index: 1, purpose: "subagent" }),
		event(110, { type: "call-end", call }),
	]);
	expect(spans[0]).toMatchObject({ label: "call 1", startAt: 10, firstByteAt: 50, endAt: 110 });
	expect(inRows(spans).map((row) => row.map((span) => span.label))).toEqual([["call 1"], ["call 2"]]);
});

test("ticks are round and few, whatever the length", () => {
	expect(ticksOf(6.6)).toEqual([0, 1, 2, 3, 4, 5, 6]);
	expect(ticksOf(0.08)).toEqual([0, 0.02, 0.04, 0.06]);
	for (const seconds of [0.001, 1, 59, 61, 3600, 90_000, 1e7])
		expect(ticksOf(seconds).length).toBeLessThan(9);
});
