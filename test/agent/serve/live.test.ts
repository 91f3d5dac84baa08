import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type {
	AssistantMessage,
	ConversationEvent,
	PermissionAsk,
	QuestionAsk,
	Turn,
} from "../../../src/agent/agent.ts";
import { toPrompt } from "../../../src/agent/serve/client.ts";
import type { ServeConversation } from "../../../src/agent/serve/conversation.ts";
import { mintId } from "../../../src/agent/serve/ids.ts";
import type { PolicyStep } from "../../../src/policy/policy.ts";
import { filesHolding } from "../../fixtures/evidence.ts";
import { type LiveAgent, openLiveAgent } from "../../fixtures/live-agent.ts";
import { bash, say } from "../../fixtures/script.ts";

/** All against the real `opencode serve`, with a scripted model behind it. */
let agent: LiveAgent;
beforeAll(async () => {
	agent = await openLiveAgent();
}, 180_000);
afterAll(async () => await agent?.[Symbol.asyncDispose]());

const allow = async () => ({ behavior: "allow", by: "test" }) as const;
const askColour: PolicyStep = {
	calls: [
		{
			tool: "question",
			args: {
				questions: [
					{ question: "Which colour?", header: "Colour", options: [{ label: "red", description: "" }] },
				],
			},
		},
	],
};
const subagent = (prompt: string): PolicyStep => ({
	calls: [{ tool: "task", args: { description: "look", prompt, subagent_type: "general" } }],
});

describe("turns", () => {
	test("the prompt is taken before the session is busy, and that does not settle the turn", async () => {
		await agent.play([say("Hello there.")]);
		await using talk = await agent.converse(await agent.folder());
		const seen = watch(talk);
		await talk.send("Hi");
		expect(talk.pending).toBe(true);
		expect((await agent.client("/").statuses())[talk.sessionId!]).toBeUndefined();
		await talk.settled();
		expect(seen.turns).toMatchObject([{ ended: "answered", text: "Hello there." }]);
		expect(seen.messages.map(({ text }) => text)).toEqual(["Hello there."]);
		expect(talk.pending).toBe(false);
	});

	test("each step is a message, and the turn is told once", async () => {
		await agent.play([
			{ ...bash("true"), text: "First." },
			{ ...bash("true"), text: "Second." },
			say("Third."),
		]);
		await using talk = await agent.converse(await agent.folder());
		using _allow = talk.decideWith(allow);
		const seen = watch(talk);
		await talk.send("Go");
		await talk.settled();
		expect(seen.messages.map(({ text }) => text)).toEqual(["First.", "Second.", "Third."]);
		expect(seen.turns).toMatchObject([{ ended: "answered", text: "Third." }]);
	});

	test("two prompts while it works are two turns and end together", async () => {
		await agent.play([bash("sleep 1"), say("One."), say("Two."), say("Three.")]);
		await using talk = await agent.converse(await agent.folder());
		using _allow = talk.decideWith(allow);
		const seen = watch(talk);
		const first = await talk.send("Go");
		const asked = seen.until(
			(event) => event.type === "agent-event" && JSON.stringify(event).includes('"running"'),
		);
		await asked;
		const second = await talk.send("And this");
		await talk.settled();
		expect(seen.turns.map(({ messageId }) => messageId).sort()).toEqual([first, second].sort());
		expect(seen.turns.every(({ ended }) => ended === "answered")).toBe(true);
	});

	test("a conversation that is taken up again has its session, and old messages are no news", async () => {
		await agent.play([say("Before."), say("After.")]);
		const directory = await agent.folder();
		const before = await agent.converse(directory);
		await before.send("One");
		await before.settled();
		const sessionId = before.sessionId!;
		await before.finish();
		await using talk = await agent.converse(directory, { sessionId });
		expect(talk.sessionId).toBe(sessionId);
		const seen = watch(talk);
		await talk.send("Two");
		await talk.settled();
		expect(seen.messages.map(({ text }) => text)).toEqual(["After."]);
	});
});

describe("sending", () => {
	test("the same ids posted twice are one message, one part and one call", async () => {
		await agent.play([say("Once.")]);
		const directory = await agent.folder();
		await using talk = await agent.converse(directory);
		const ids = { messageId: mintId("msg"), partId: mintId("prt") };
		await talk.send("Say it", { ids });
		await talk.settled();
		await talk.send("Say it", { ids });
		await talk.settled();
		const messages = await talk.messages();
		expect(
			messages.map(({ info, parts }) => [info.role, parts.filter(({ type }) => type === "text").length]),
		).toEqual([
			["user", 1],
			["assistant", 1],
		]);
	});

	test("a send whose answer is lost is found again and not said twice", async () => {
		await agent.play([say("Heard.")]);
		const directory = await agent.folder();
		await using talk = await agent.converse(directory);
		// The prompt goes straight to the server; the conversation's own try meets a wire that is down at first.
		const ids = { messageId: mintId("msg"), partId: mintId("prt") };
		await agent.client(directory).prompt(talk.sessionId!, toPrompt("Say it", ids, {}), 15_000);
		agent.cutter.setDown(true);
		const sending = talk.send("Say it", { ids });
		await delay(50);
		agent.cutter.setDown(false);
		expect(await sending).toBe(ids.messageId);
		await talk.settled();
		const messages = await talk.messages();
		expect(messages.filter(({ info }) => info.role === "user")).toHaveLength(1);
		expect(messages.filter(({ info }) => info.role === "user")[0]!.parts).toHaveLength(1);
	});

	test("an unknown session and a wrong password have errors of their own", async () => {
		const directory = await agent.folder();
		await expect(agent.converse(directory, { sessionId: "ses_none" })).rejects.toMatchObject({
			code: expect.stringMatching(/session_not_found|agent_api_error/),
		});
	});
});

describe("asks", () => {
	test("a sub-agent's ask reaches whoever decides, and blocks nobody once it is answered", async () => {
		await agent.play([subagent("List the files"), say("Done.")], [bash("touch by-child"), say("Listed.")]);
		const directory = await agent.folder();
		await using talk = await agent.converse(directory);
		const asks: PermissionAsk[] = [];
		using _allow = talk.decideWith(async (ask) => {
			asks.push(ask);
			return await allow();
		});
		await talk.send("Go");
		await talk.settled();
		expect(asks).toMatchObject([{ tool: "bash", isChild: true }]);
		expect(asks[0]!.sessionId).not.toBe(talk.sessionId);
		expect(existsSync(join(directory, "by-child"))).toBe(true);
	});

	test("a denial without words still gives the model a reason, and the turn goes on", async () => {
		await agent.play([bash("touch no"), say("Then not.")]);
		const directory = await agent.folder();
		await using talk = await agent.converse(directory);
		using _deny = talk.decideWith(async () => ({ behavior: "deny", by: "test" }));
		const seen = watch(talk);
		await talk.send("Go");
		await talk.settled();
		expect(seen.turns).toMatchObject([{ ended: "answered", text: "Then not." }]);
		expect(existsSync(join(directory, "no"))).toBe(false);
	});

	test("a denial that shall end the turn does, and the turn settles", async () => {
		await agent.play([bash("touch no"), say("Never said.")]);
		await using talk = await agent.converse(await agent.folder());
		using _deny = talk.decideWith(async () => ({ behavior: "deny", by: "test", endTurn: true }));
		const seen = watch(talk);
		await talk.send("Go");
		await talk.settled();
		expect(seen.turns).toMatchObject([{ ended: "answered", text: "" }]);
	});

	test("a denial refuses its siblings too, and whoever decides about them is told", async () => {
		await agent.play([{ calls: [...bash("touch a").calls!, ...bash("touch b").calls!] }, say("Done.")]);
		await using talk = await agent.converse(await agent.folder());
		const signals: AbortSignal[] = [];
		const both = Promise.withResolvers<void>();
		const seen = watch(talk);
		using _decide = talk.decideWith(async (_ask, signal) => {
			signals.push(signal);
			if (signals.length === 2) both.resolve();
			await both.promise;
			// The second waits for a person who never comes.
			if (signals.indexOf(signal) === 1)
				await new Promise((_, reject) => signal.addEventListener("abort", reject));
			return { behavior: "deny", by: "test" };
		});
		await talk.send("Go");
		await talk.settled();
		expect(signals.every((signal) => signal.aborted)).toBe(true);
		expect(seen.ends.map(({ end }) => end.by).sort()).toEqual(["elsewhere", "test"]);
	});

	test("a question is answered, and one that nobody answers in time is dismissed", async () => {
		await agent.play([askColour, say("Red it is."), askColour, say("Never said.")]);
		await using talk = await agent.converse(await agent.folder(), { times: { decideMs: 1_500 } });
		const asks: QuestionAsk[] = [];
		const seen = watch(talk);
		{
			using _answer = talk.answerWith(async (ask) => {
				asks.push(ask);
				return { answers: [["red"]], by: "test" };
			});
			await talk.send("Ask me");
			await talk.settled();
		}
		await talk.send("Ask me again");
		await talk.settled();
		expect(asks).toHaveLength(1);
		expect(JSON.stringify(await talk.messages())).toContain("red");
		expect(seen.ends.map(({ end }) => [end.reply, end.by])).toEqual([
			["answer", "test"],
			["reject", "deadline"],
		]);
	});
});

describe("an interrupt", () => {
	test.each([
		["the agent's own ask", [bash("touch forbidden"), say("x")], undefined],
		["a sub-agent's ask", [subagent("Do it"), say("x")], [bash("touch forbidden"), say("x")]],
		["a question", [askColour, say("x")], undefined],
		["a sub-agent's question", [subagent("Do it"), say("x")], [askColour, say("x")]],
	] as [string, PolicyStep[], PolicyStep[] | undefined][])(
		"withdraws %s: nothing waits, nothing is run, whatever is allowed afterwards",
		async (_what, steps, subagentSteps) => {
			await agent.play(steps, subagentSteps);
			const directory = await agent.folder();
			await using talk = await agent.converse(directory);
			const asked = Promise.withResolvers<void>();
			const late = Promise.withResolvers<void>();
			const isOver = late.promise;
			using _decide = talk.decideWith(async () => {
				asked.resolve();
				await isOver;
				return await allow();
			});
			using _answer = talk.answerWith(async () => {
				asked.resolve();
				await isOver;
				return { answers: [["red"]], by: "test" };
			});
			const seen = watch(talk);
			await talk.send("Go");
			await asked.promise;
			await Promise.all([talk.interrupt(), talk.interrupt()]);
			late.resolve();
			expect(talk.pending).toBe(false);
			expect(seen.turns).toMatchObject([{ ended: "interrupted" }]);
			const client = agent.client(directory);
			expect(await client.pendingAsks("permission")).toEqual([]);
			expect(await client.pendingAsks("question")).toEqual([]);
			expect(seen.ends.map(({ end }) => end.by)).toEqual(["interrupt"]);
			expect(existsSync(join(directory, "forbidden"))).toBe(false);
			// The conversation goes on.
			await agent.play([say("Still here."), say("Still here."), say("Still here."), say("Still here.")]);
			await talk.send("And now?");
			await talk.settled();
			expect(seen.turns.at(-1)).toMatchObject({ ended: "answered", text: "Still here." });
		},
	);

	test("an ask left over by somebody else's abort is a ghost: refused at the next connection, never shown", async () => {
		await agent.play([bash("touch forbidden"), say("x")]);
		const directory = await agent.folder();
		const before = await agent.converse(directory);
		await before.send("Go");
		const client = agent.client(directory);
		await until(async () => (await client.pendingAsks("permission")).length === 1);
		await before.finish();
		await client.abort(before.sessionId!, 5_000);
		await until(async () => !(before.sessionId! in (await client.statuses())));
		expect(await client.pendingAsks("permission")).toHaveLength(1);
		await using talk = await agent.converse(directory, { sessionId: before.sessionId! });
		let shown = 0;
		using _decide = talk.decideWith(async () => {
			shown += 1;
			return await allow();
		});
		await until(async () => (await client.pendingAsks("permission")).length === 0);
		expect(shown).toBe(0);
		expect(existsSync(join(directory, "forbidden"))).toBe(false);
	});

	test("what runs in its shell is stopped", async () => {
		await agent.play([bash("echo $$ > pid; sleep 300"), say("x")]);
		const directory = await agent.folder();
		await using talk = await agent.converse(directory);
		using _allow = talk.decideWith(allow);
		await talk.send("Go");
		await until(async () => existsSync(join(directory, "pid")));
		await talk.interrupt();
		const pid = (await readFile(join(directory, "pid"), "utf8")).trim();
		await until(async () => !existsSync(`/proc/${pid}`));
	});
});

describe("the server's password", () => {
	test("is in no log, file, event, message, error or command line of a conversation with asks and gaps", async () => {
		await agent.play([bash("ls"), say("Done."), say("More.")]);
		const directory = await agent.folder();
		const talk = await agent.converse(directory);
		using _allow = talk.decideWith(allow);
		const seen = watch(talk);
		await talk.send("Go");
		await talk.settled();
		agent.cutter.cutEvents();
		await seen.until(({ type }) => type === "gap");
		agent.cutter.setDown(true);
		const errors = [await talk.messages().catch((error: unknown) => error)];
		agent.cutter.setDown(false);
		errors.push(await agent.converse(directory, { sessionId: "ses_none" }).catch((error: unknown) => error));
		const messages = await agent.client(directory).messages(talk.sessionId!);
		await talk.finish();
		const told = inspect(
			{ seen, errors, messages },
			{ depth: 30, maxStringLength: null, maxArrayLength: null },
		);
		const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
		const commands = await Promise.all(
			pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")),
		);
		expect(errors.every((error) => error instanceof Error)).toBe(true);
		for (const secret of [agent.password, Buffer.from(`opencode:${agent.password}`).toString("base64")]) {
			expect(told.includes(secret)).toBe(false);
			expect(commands.some((command) => command.includes(secret))).toBe(false);
			// Log, configuration, record and database of the server are all below its home.
			expect(await filesHolding(dirname(agent.keeper.logPath), secret)).toEqual([]);
		}
	});

	test("cannot be read by what the agent runs, neither from its environment nor from the server's", async () => {
		const look = `env > seen; cat /proc/[0-9]*/environ >> seen 2>/dev/null; cat /proc/[0-9]*/cmdline >> seen 2>/dev/null; true`;
		await agent.play([bash(look), say("Done.")]);
		const directory = await agent.folder();
		await using talk = await agent.converse(directory);
		using _allow = talk.decideWith(allow);
		await talk.send("Go");
		await talk.settled();
		const seen = await readFile(join(directory, "seen"), "utf8");
		expect(seen).toContain("HOME=");
		if (process.getuid?.() === 0) {
			// Root reads everything; the box has no root. What is left to check here is the shell's own environment.
			expect(seen.slice(0, seen.indexOf("\0"))).not.toContain(agent.password);
		} else expect(seen).not.toContain(agent.password);
	});
});

interface Seen {
	events: ConversationEvent[];
	messages: AssistantMessage[];
	turns: Turn[];
	ends: (ConversationEvent & { type: "ask-end" })[];
	until(found: (event: ConversationEvent) => boolean): Promise<void>;
}

function watch(talk: ServeConversation): Seen {
	const waiting = new Set<{ found: (event: ConversationEvent) => boolean; resolve: () => void }>();
	const seen: Seen = {
		events: [],
		messages: [],
		turns: [],
		ends: [],
		until(found) {
			if (seen.events.some(found)) return Promise.resolve();
			return new Promise((resolve) => waiting.add({ found, resolve }));
		},
	};
	talk.subscribe((event) => {
		seen.events.push(event);
		if (event.type === "message") seen.messages.push(event.message);
		if (event.type === "turn-end") seen.turns.push(event.turn);
		if (event.type === "ask-end") seen.ends.push(event);
		for (const one of waiting) if (one.found(event)) one.resolve();
	});
	return seen;
}

async function until(found: () => Promise<boolean>): Promise<void> {
	while (!(await found())) await delay(20);
}
