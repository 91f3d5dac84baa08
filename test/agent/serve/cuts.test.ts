import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import type { TextPiece } from "../../../src/agent/agent.ts";
import type { PolicyStep } from "../../../src/policy/policy.ts";
import { openLiveAgent } from "../../fixtures/live-agent.ts";
import { bash, say } from "../../fixtures/script.ts";

const CUTS = 100;

/** What a turn makes the agent do: a command, a sub-agent with a command, a question, and words. */
const ask: PolicyStep = {
	calls: [
		{
			tool: "question",
			args: {
				questions: [{ question: "Go on?", header: "On", options: [{ label: "yes", description: "" }] }],
			},
		},
	],
};
const subagent: PolicyStep = {
	text: "I let somebody look.",
	calls: [{ tool: "task", args: { description: "look", prompt: "Look", subagent_type: "general" } }],
};
const words = "These are some more words, so that the stream has something to be cut in. ".repeat(5);
const turn: PolicyStep[] = [
	{ ...bash("echo root >> done"), text: "I begin." },
	subagent,
	ask,
	say(`${words}And that is all.`),
];

/** Against the real `opencode serve`; its event stream is cut over and over while it works. */
test(`the stream is cut ${CUTS} times: no ask is lost, none answered twice, every message comes once, and the text is the stored text`, async () => {
	await using agent = await openLiveAgent();
	const turns = 60;
	await agent.play(Array.from({ length: turns }, () => turn).flat(), [
		bash("echo child >> done"),
		say("I looked."),
	]);
	const directory = await agent.folder();
	await using talk = await agent.converse(directory, {
		times: { reconnectMs: [5, 10, 20], retryMs: [5, 10, 20] },
	});
	const decided: string[] = [];
	const ended: string[] = [];
	const messages: { id: string; text: string }[] = [];
	const texts = new Map<string, string>();
	const settled: string[] = [];
	let gaps = 0;
	using _decide = talk.decideWith(async (one) => {
		decided.push(one.id);
		await delay(one.id.charCodeAt(10) % 30);
		return { behavior: "allow", by: "test" };
	});
	using _answer = talk.answerWith(async (one) => {
		decided.push(one.id);
		return { answers: [["yes"]], by: "test" };
	});
	using _listening = talk.subscribe((event) => {
		if (event.type === "text" && !event.piece.isChild) apply(texts, event.piece);
		if (event.type === "message") messages.push(event.message);
		if (event.type === "turn-end") settled.push(`${event.turn.messageId} ${event.turn.ended}`);
		if (event.type === "ask-end") ended.push(event.end.ask.id);
		if (event.type === "gap") gaps += 1;
	});

	let cuts = 0;
	const isDone = new AbortController();
	const cutting = (async () => {
		while (cuts < CUTS && !isDone.signal.aborted) {
			await delay(Math.floor(Math.random() * 150));
			cuts += agent.cutter.cutEvents();
		}
	})();
	const sent: string[] = [];
	while (cuts < CUTS && sent.length < turns) {
		sent.push(await talk.send(`Turn ${sent.length + 1}`));
		await talk.settled();
	}
	isDone.abort();
	await cutting;
	await talk.settled();

	expect(cuts).toBeGreaterThanOrEqual(CUTS);
	expect(gaps).toBeGreaterThanOrEqual(CUTS / 2);
	expect(settled).toEqual(sent.map((id) => `${id} answered`));
	// A command, a sub-agent's command and a question for every turn, each decided once and ended once.
	expect(decided).toHaveLength(sent.length * 3);
	expect(new Set(decided).size).toBe(decided.length);
	expect([...ended].sort()).toEqual([...decided].sort());
	const done = (await readFile(join(directory, "done"), "utf8")).trim().split("\n");
	expect(done).toEqual(sent.flatMap(() => ["root", "child"]));
	const stored = (await talk.messages()).filter(({ info }) => info.role === "assistant");
	const said = stored
		.map(({ info, parts }) => ({
			id: info.id,
			text: parts.flatMap(({ type, text }) => (type === "text" ? [text] : [])).join("\n\n"),
		}))
		.filter(({ text }) => text !== "");
	expect(messages.map(({ id, text }) => ({ id, text }))).toEqual(said);
	const storedTexts = stored.flatMap(({ parts }) =>
		parts.flatMap((part) => (part.type === "text" ? [[part.id, part.text] as const] : [])),
	);
	expect(Object.fromEntries(texts)).toEqual(Object.fromEntries(storedTexts));
}, 400_000);

/** As a viewer would: what stands from the offset on is now this. */
function apply(texts: Map<string, string>, { partId, offset, text, kind }: TextPiece): void {
	if (kind !== "text") return;
	const before = texts.get(partId) ?? "";
	expect(offset).toBeLessThanOrEqual(before.length);
	texts.set(partId, before.slice(0, offset) + text);
}
