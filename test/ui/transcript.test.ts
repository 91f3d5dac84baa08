import { expect, test } from "vitest";
import type { LogEvent, Written } from "../../src/ui/data/log-event.ts";
import { readTranscript } from "../../src/ui/data/transcript.ts";

let seq = 0;
const event = (body: object) => ({ seq: ++seq, at: seq, ...body }) as LogEvent;
const part = (value: object) =>
	event({ type: "agent-event", name: "message.part.updated", properties: { part: value } });

test("text that is being written stands at the end, and is replaced by what was stored", () => {
	const begun = [
		event({ type: "session-start", sessionId: "ses" }),
		event({ type: "message-sent", text: "Hello?", by: "ada" }),
		part({ id: "prt_0", sessionID: "ses", type: "text", text: "Hello?" }),
	];
	const texts = new Map([
		["prt_1", { kind: "text" as const, isChild: false, messageId: "msg", text: "I am wri" }],
	]);
	const shown = readTranscript("", begun, texts).map((entry) => [entry.type, "text" in entry && entry.text]);
	// A person's words come back as a part; they are shown once.
	expect(shown).toEqual([
		["person", "Hello?"],
		["text", "I am wri"],
	]);
	const stored = [...begun, part({ id: "prt_1", sessionID: "ses", type: "text", text: "I am written." })];
	expect(readTranscript("", stored).at(-1)).toMatchObject({ key: "prt_1", text: "I am written." });
});

test("a turn that failed, a message said again, and the end are told in words", () => {
	const entries = readTranscript("", [
		event({ type: "message-sent", text: "Go", by: "ada" }),
		event({ type: "message-sent", text: "Go", by: "ada", again: true }),
		event({
			type: "turn-end",
			...{ messageId: "m", ended: "failed", text: "", error: { code: "x", message: "the model is away" } },
		}),
		event({ type: "conversation-end", reason: "idle", failure: null, attempt: 1 }),
	]);
	expect(entries.map((entry) => "text" in entry && entry.text)).toEqual([
		"Go",
		"the turn ended: failed, the model is away",
		"closed (idle)",
	]);
});

test("a text stands before the call that it announced, though it is stored after it", () => {
	const tool = (status: string) =>
		part({
			...{ id: "prt_02", messageID: "msg_1", sessionID: "ses", type: "tool", callID: "call_1", tool: "edit" },
			state: { status, input: {} },
		});
	const text = { id: "prt_01", messageID: "msg_1", sessionID: "ses", type: "text", text: "I will edit." };
	const asked = event({ type: "permission-ask", requestId: "per_1", permission: "edit", patterns: [] });
	const types = (events: LogEvent[], texts?: Map<string, Written>) =>
		readTranscript("", events, texts).map((entry) => entry.type);
	expect(types([tool("running"), asked, part(text), tool("completed")])).toEqual([
		...["text", "tool", "permission"],
	]);
	// It stands there while it is being written, too.
	const written = { kind: "text" as const, isChild: false, messageId: "msg_1", text: "I will" };
	expect(types([tool("running"), asked], new Map([["prt_01", written]]))).toEqual([
		...["text", "tool", "permission"],
	]);
});
