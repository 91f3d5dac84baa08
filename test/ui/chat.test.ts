import { describe, expect, test } from "vitest";
import type { EndpointSpec } from "../../src/model/endpoint.ts";
import type { LiveText } from "../../src/model/live-text.ts";
import { canInterrupt, heldWith, isWorking, modelNow, whyNotModel } from "../../src/ui/data/chat.ts";
import { EventFeed, type Open } from "../../src/ui/data/event-feed.ts";
import type { LogEvent } from "../../src/ui/data/log-event.ts";
import { readTranscript } from "../../src/ui/data/transcript.ts";

/** What the console makes of a conversation, without a browser. */
let seq = 0;
const event = (body: object) => ({ seq: ++seq, at: seq, ...body }) as LogEvent;
const part = (value: object) =>
	event({ type: "agent-event", name: "message.part.updated", properties: { part: value } });
const written = (id: string, text: string) =>
	part({ id, sessionID: "ses", type: "text", text, time: { start: 1, end: 2 } });
const said = (text: string) => event({ type: "message-sent", text, by: "ada", messageId: `msg_${text}` });
const ended = (how = "answered") =>
	event({ type: "turn-end", messageId: "m", ended: how, text: "", error: null });
const asked = (requestId: string, more: object = {}) =>
	event({
		...{ type: "permission-ask", requestId, sessionId: "ses", isChild: false },
		...{ permission: "bash", patterns: ["ls"], input: {}, ...more },
	});
const words = (events: LogEvent[]) =>
	readTranscript("", events).flatMap((entry) => ("text" in entry ? [`${entry.type}: ${entry.text}`] : []));

describe("a transcript", () => {
	test("shows an answer that repeats a person's very words", () => {
		expect(words([said("Hello"), written("prt_1", "Hello"), ended()])).toEqual([
			"person: Hello",
			"text: Hello",
		]);
	});

	test("replaces a text that is told again in full, where it stood, and never doubles it", () => {
		const events = [said("Go"), written("prt_1", "One"), written("prt_2", "Two"), written("prt_1", "One.")];
		expect(words(events)).toEqual(["person: Go", "text: One.", "text: Two"]);
	});

	test("keeps one row for each tool, with its newest state", () => {
		const tool = (status: string, more: object = {}) =>
			part({
				...{ id: "prt_t", sessionID: "ses", type: "tool", callID: "call_1", tool: "bash" },
				state: { status, input: { command: "ls" }, ...more },
			});
		const [row, ...others] = readTranscript("", [
			tool("running"),
			tool("completed", { output: "a", title: "ls", time: { start: 1_000, end: 2_500 } }),
		]);
		expect(others).toEqual([]);
		expect(row).toMatchObject({ type: "tool", status: "completed", output: "a", durationS: 1.5 });
	});

	test("shows sub-agents' words and asks inside, and thinking as thinking", () => {
		const entries = readTranscript("", [
			event({ type: "session-start", sessionId: "ses" }),
			part({ id: "prt_c", sessionID: "ses_child", type: "text", text: "Inner", time: { end: 1 } }),
			part({ id: "prt_r", sessionID: "ses", type: "reasoning", text: "Hm", time: { end: 1 } }),
		]);
		expect(entries.map(({ type, depth }) => [type, depth])).toEqual([
			["text", 1],
			["reasoning", 0],
		]);
	});
});

test("a new conversation is held with a kept agent, an endpoint of the catalog, or one at an address", () => {
	const blank = { baseUrl: "", model: "", apiKey: "" };
	expect(heldWith("agent:aide", { ...blank, model: "left over" })).toEqual({ keptAgent: "aide" });
	expect(heldWith("cred:team", blank)).toEqual({ endpoint: { type: "named", name: "cred:team" } });
	const endpoint = { type: "url", baseUrl: "http://a/v1", model: "m" };
	expect(heldWith(null, { ...blank, baseUrl: "http://a/v1", model: "m" })).toEqual({ endpoint });
});

describe("a card", () => {
	const cards = (events: LogEvent[]) =>
		readTranscript("", events).flatMap((entry) =>
			entry.type === "permission" ? [[entry.requestId, entry.reply, entry.by]] : [],
		);

	test("that waited before the page was loaded is there, and is answered once", () => {
		expect(cards([said("Go"), asked("per_1")])).toEqual([["per_1", null, null]]);
		const answered = event({ type: "permission-end", requestId: "per_1", reply: "once", by: "console" });
		expect(cards([said("Go"), asked("per_1"), answered])).toEqual([["per_1", "once", "console"]]);
	});

	test("waits no longer when its agent is gone: another worker has it, or it has ended", () => {
		const start = event({ type: "conversation-start", attempt: 2, worker: "w2" });
		expect(cards([asked("per_1"), start, asked("per_2")])).toEqual([
			["per_1", "unknown", "another worker"],
			["per_2", null, null],
		]);
		const end = event({ type: "conversation-end", reason: "idle", failure: null, attempt: 1 });
		expect(cards([asked("per_1"), end])).toEqual([["per_1", "unknown", "the end"]]);
	});

	test("of a question is the same", () => {
		const question = event({
			...{ type: "question-ask", requestId: "que_1", sessionId: "ses", isChild: false },
			questions: [{ question: "Which?", header: "W", options: [{ label: "a", description: "" }] }],
		});
		const open = (events: LogEvent[]) =>
			readTranscript("", events).map((entry) => entry.type === "question" && entry.isOpen);
		expect(open([question])).toEqual([true]);
		const answer = event({ type: "question-end", requestId: "que_1", by: "ada" });
		expect(open([question, answer])).toEqual([false]);
	});
});

describe("Esc", () => {
	test("interrupts while a turn goes on in an open conversation, and at no other time", () => {
		const busy = [said("Go")];
		expect(canInterrupt("open", busy)).toBe(true);
		expect(canInterrupt("open", [...busy, ended()])).toBe(false);
		expect(canInterrupt("open", [])).toBe(false);
		expect(canInterrupt("queued", busy)).toBe(false);
		expect(canInterrupt("closed", busy)).toBe(false);
		// Steered twice, ended once for each.
		expect(isWorking([...busy, said("And"), ended()])).toBe(false);
	});
});

describe("the model", () => {
	const endpoint: EndpointSpec = {
		...{ type: "url", baseUrl: "http://127.0.0.1:1/v1", model: "own/model", dialect: "plain" },
	};
	const chosen = (model: string) => event({ type: "model-set", model, by: "ada" });

	test("is the one that was chosen last, also before it was opened again, and else its endpoint's", () => {
		expect(modelNow(endpoint, [])).toBe("own/model");
		const before = [chosen("small"), chosen("large")];
		const again = event({ type: "conversation-start", attempt: 2, worker: "w" });
		expect(modelNow(endpoint, [...before, again, said("Go")])).toBe("large");
	});

	test("cannot be changed to nothing, to itself or in a closed conversation, and that is said", () => {
		expect(whyNotModel("open", "small", "large")).toBeNull();
		expect(whyNotModel("queued", "small", "large")).toBeNull();
		expect(whyNotModel("open", "small", " ")).toMatch(/name a model/);
		expect(whyNotModel("open", "small", "small")).toMatch(/has this model/);
		expect(whyNotModel("closed", "small", "large")).toMatch(/closed/);
	});
});

describe("a feed", () => {
	const text = (partId: string, offset: number, piece: string): LiveText => ({
		...{ type: "text", sessionId: "ses", isChild: false, messageId: "msg", kind: "text" },
		...{ partId, offset, text: piece },
	});

	test("of a late viewer has history first, then what is being written from its beginning, and each once", async () => {
		const gate = Promise.withResolvers<void>();
		const feed = new EventFeed(async function* ({ onText }) {
			yield said("Go");
			onText(text("prt_1", 0, "I am wri"));
			onText(text("prt_1", 8, "ting"));
			await gate.promise;
			yield written("prt_1", "I am writing.");
			yield ended();
		} satisfies Open);
		const shown = () =>
			readTranscript("", feed.current().events, feed.current().texts).flatMap((entry) =>
				"text" in entry ? [entry.text] : [],
			);
		await expect.poll(shown).toEqual(["Go", "I am writing"]);
		gate.resolve();
		await expect.poll(() => feed.current().state).toBe("ended");
		expect(shown()).toEqual(["Go", "I am writing."]);
		expect(feed.current().texts.size).toBe(0);
		feed.close();
	});

	test("after a cut takes what is missing: what overlaps replaces, and nothing is doubled", async () => {
		const feed = new EventFeed(async function* ({ onText, signal }) {
			onText(text("prt_1", 0, "one two thr"));
			// The connection breaks; the next one tells from an earlier place on.
			onText(text("prt_1", 4, "two three"));
			onText(text("prt_2", 0, "more"));
			yield said("Go");
			await new Promise((resolve) => signal.addEventListener("abort", resolve));
		} satisfies Open);
		await expect
			.poll(() => [...feed.current().texts.values()].map((each) => each.text))
			.toEqual(["one two three", "more"]);
		feed.close();
	});

	test("that cannot be read says why and keeps what it had", async () => {
		const feed = new EventFeed(async function* () {
			yield said("Go");
			throw new Error("gone");
		} satisfies Open);
		await expect.poll(() => feed.current().state).toBe("broken");
		expect(feed.current().events).toHaveLength(1);
		expect(String(feed.current().error)).toContain("gone");
		feed.close();
	});
});
