import { describe, expect, test } from "vitest";
import type { AgentTrouble } from "../../src/agent/agent.ts";
import { toError } from "../../src/conversation/drive-turn.ts";
import { Replies } from "../../src/conversation/replies.ts";

const piece = (messageId: string, partId: string, offset: number, text: string) => ({
	...{ sessionId: "ses", isChild: false, kind: "text" as const },
	...{ messageId, partId, offset, text },
});

describe("replies", () => {
	test("end once, whatever still happens", async () => {
		const replies = new Replies("t");
		replies.finish("Done.", null);
		replies.finish("Again.", null);
		replies.fail("internal", false, "late");
		replies.say(piece("m", "p", 0, "late"));
		expect(await Array.fromAsync(replies)).toEqual([
			{ kind: "delta", traceId: "t", content: "Done." },
			{ kind: "final", traceId: "t", content: "Done." },
		]);
	});

	test("an error after an error is one error", async () => {
		const replies = new Replies("t");
		replies.stopped(true);
		replies.fail("internal", false, "late");
		expect(await Array.fromAsync(replies)).toMatchObject([{ kind: "error", code: "timeout" }]);
	});

	test("that wait are joined: a slow reader holds a text, not a queue", async () => {
		const replies = new Replies("t");
		for (let n = 0; n < 10_000; n += 1) replies.say(piece("m", "p", n, "x"));
		replies.finish("x".repeat(10_000), null);
		expect((await Array.fromAsync(replies)).map(({ kind }) => kind)).toEqual(["delta", "final"]);
	});

	test("are reset when a retry begins a new step in the same message", async () => {
		const replies = new Replies("t");
		replies.say(piece("m", "p1", 0, "Broken o"));
		replies.note("message.part.updated", { part: { type: "step-start", messageID: "m" } }, "msg");
		replies.say(piece("m", "p2", 0, "Whole."));
		replies.finish("Whole.", null);
		expect(
			(await Array.fromAsync(replies)).map((reply) => ("content" in reply ? reply.content : reply.kind)),
		).toEqual(["Broken o", "reset", "Whole.", "Whole."]);
	});
});

test.each([
	["what was said is no longer so", "Another text."],
	["it ends with a tool alone", ""],
])("since the last reset the deltas are the final text, also when %s", async (_when, content) => {
	const replies = new Replies("t");
	replies.say(piece("m", "p", 0, "Some text."));
	replies.finish(content, null);
	const told = await Array.fromAsync(replies);
	const from = told.findLastIndex(({ kind }) => kind === "reset") + 1;
	const deltas = told.slice(from).flatMap((reply) => (reply.kind === "delta" ? [reply.content] : []));
	expect(deltas.join("")).toBe(content);
	expect(told.at(-1)).toMatchObject({ kind: "final", content });
});

test.each([
	["APIError", 429, "rate_limit", true],
	["APIError", 401, "auth", false],
	["APIError", 403, "auth", false],
	["APIError", 400, "provider", false],
	["APIError", 503, "provider", true],
	["ProviderAuthError", null, "auth", false],
	["ContextOverflowError", null, "context_overflow", false],
	["MessageAbortedError", null, "aborted", false],
	["MessageOutputLengthError", null, "provider", false],
	["ContentFilterError", null, "provider", false],
	["UnknownError", null, "provider", true],
])("%s with %s is told as %s", (code, statusCode, expected, retryable) => {
	const trouble: AgentTrouble = { code, statusCode, message: "with a secret in it" };
	const [told, again, message] = toError(trouble);
	expect([told, again]).toEqual([expected, retryable]);
	expect(message).not.toContain("secret");
});
