import { expect, test } from "vitest";
import { originOf } from "../../src/gateway/agent-side/purpose.ts";
import { chat } from "../../src/gateway/protocols/openai-chat.ts";
import { CHAT } from "./station.ts";

const { tools: _tools, ...BARE } = CHAT;
const withSystem = (content: string) => ({ ...BARE, messages: [{ role: "system", content }] });
const TITLE = withSystem("You are a title generator. You output ONLY a thread title.");
const COMPACTION = withSystem("You are a context summarization agent. Summarize.");

test.each([
	["an agent with tools", {}, CHAT, "main"],
	["a call with a parent session", { "x-parent-session-id": "ses_0" }, CHAT, "subagent"],
	["the plugin's word", { "x-paddock-agent": "title" }, BARE, "title"],
	["the plugin's word", { "x-paddock-agent": "compaction" }, BARE, "compaction"],
	[
		"the plugin's word over the parent",
		{ "x-paddock-agent": "compaction", "x-parent-session-id": "s" },
		BARE,
		"compaction",
	],
	[
		"a sub-agent named by the plugin",
		{ "x-paddock-agent": "general", "x-parent-session-id": "s" },
		CHAT,
		"subagent",
	],
	["a title prompt without the plugin", {}, TITLE, "title"],
	["a summarisation prompt without the plugin", {}, COMPACTION, "compaction"],
	["a title prompt, when the plugin says otherwise", { "x-paddock-agent": "build" }, TITLE, "main"],
	["no tools and no telling prompt", {}, BARE, "main"],
])("%s: %o", (_what, headers, body, expected) => {
	expect(originOf(headers, body, chat).purpose).toBe(expected);
});

test("session, parent and agent are taken from the headers", () => {
	const headers = { "x-session-id": "ses_1", "x-parent-session-id": "ses_0", "x-paddock-agent": "general" };
	expect(originOf(headers, CHAT, chat)).toEqual({
		purpose: "subagent",
		agentName: "general",
		sessionId: "ses_1",
		parentSessionId: "ses_0",
	});
});
