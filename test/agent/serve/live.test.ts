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
import { openServeConversation } from "../../../src/agent/serve/attach.ts";
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
	test("a prompt is pending from the moment it is taken, also before the server shows its session busy", async () => {
		await agent.play([{ ...say("Hello there."), delayMs: 1_000 }]);
		const directory = await agent.folder();
		await using talk = await agent.converse(directory);
		const client = agent.client(directory);
		const seen = watch(talk);
		await talk.send("Hi");
		// The server takes it before the session is busy: usually the first look finds it idle still.
		for (let isBusy = false; !isBusy; ) {
			isBusy = talk.sessionId! in (await client.statuses());
			expect(talk.pending).toBe(true);
		}
		expect(seen.turns).toEqual([]);
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

	test("prompts while it works are turns of their own: taken up together, answered as one, ended together", async () => {
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
		const third = await talk.send("And that");
		await talk.settled();
		expect(seen.turns).toMatchObject([
			{ messageId: first, ended: "answered", text: "" },
			{ messageId: second, ended: "answered", text: "One." },
			{ messageId: third, ended: "answered", text: "One." },
		]);
		const idles = seen.events.filter(
			(event) => event.type === "agent-event" && event.name === "session.idle",
		);
		expect(idles).toHaveLength(1);
	});

	test("a model that breaks off is asked again, and what it had said by then does not count", async () => {
		const whole = "It has begun, Quite, and that is all.";
		await agent.play([say(whole)]);
		await using talk = await agent.converse(await agent.folder());
		const seen = watch(talk);
		agent.modelWire.disturb("/chat/completions", { holdFrom: "Q" });
		await talk.send("Go");
		await seen.until(({ type }) => type === "text");
		agent.modelWire.setDown(true);
		agent.modelWire.setDown(false);
		await seen.until((event) => event.type === "agent-event" && JSON.stringify(event).includes('"retry"'));
		expect(talk.pending).toBe(true);
		await talk.settled();
		expect(seen.turns).toMatchObject([{ ended: "answered", text: whole }]);
		// What the first try said is told live, but not kept.
		const texts = (await talk.messages()).at(-1)!.parts.filter(isText);
		expect(texts).toMatchObject([{ text: "" }, { text: whole }]);
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
		expect(messages.map(({ info, parts }) => [info.role, parts.filter(isText).length])).toEqual([
			["user", 1],
			["assistant", 1],
		]);
	});

	test.each([
		["whose answer is lost after it was taken", "hold", 1],
		["that never arrived", "lose", 2],
	] as const)("a send %s is looked up, and said once", async (_what, how, posts) => {
		await agent.play([say("Heard.")]);
		await using talk = await agent.converse(await agent.folder(), { times: { postMs: 1_000 } });
		const [asked, called] = [agent.cutter.requests.length, agent.modelWire.requests.length];
		agent.cutter.disturb("/prompt_async", how);
		const messageId = await talk.send("Say it");
		await talk.settled();
		const requests = agent.cutter.requests.slice(asked);
		expect(requests.filter((line) => line.endsWith("/prompt_async"))).toHaveLength(posts);
		expect(requests.filter((line) => line.endsWith(`/message/${messageId}`))).toHaveLength(posts);
		const messages = await talk.messages();
		expect(messages.map(({ info, parts }) => [info.role, parts.filter(isText).length])).toEqual([
			["user", 1],
			["assistant", 1],
		]);
		expect(agent.modelWire.requests.slice(called)).toHaveLength(1);
	});

	test("to a server out of reach fails, nothing is pending, and a later one works", async () => {
		await agent.play([say("Heard.")]);
		await using talk = await agent.converse(await agent.folder());
		const seen = watch(talk);
		agent.cutter.setDown(true);
		await expect(talk.send("One")).rejects.toMatchObject({ code: "agent_api_error", retryable: true });
		expect(talk.pending).toBe(false);
		agent.cutter.setDown(false);
		await talk.send("Two");
		await talk.settled();
		expect(seen.turns).toMatchObject([{ ended: "answered", text: "Heard." }]);
	});

	test("an unknown session and a wrong password have errors of their own", async () => {
		const directory = await agent.folder();
		const unknown = agent.converse(directory, { sessionId: "ses_none" });
		await expect(unknown).rejects.toMatchObject({ code: "session_not_found" });
		const { url } = agent.cutter;
		const wrong = openServeConversation({ url, password: "not-the-password", directory });
		await expect(wrong).rejects.toMatchObject({ code: "agent_auth_failed" });
		const attaching = { url, password: "not-the-password", directory, sessionId: "ses_none" };
		await expect(openServeConversation(attaching)).rejects.toMatchObject({ code: "agent_auth_failed" });
	});

	test("into a session that is gone has an error of its own, and nothing is pending", async () => {
		const directory = await agent.folder();
		await using talk = await agent.converse(directory);
		await agent.client(directory).deleteSession(talk.sessionId!);
		await expect(talk.send("Hello?")).rejects.toMatchObject({ code: "session_not_found" });
		expect(talk.pending).toBe(false);
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

	test("one that waits already is found by whoever attaches to the busy session", async () => {
		await agent.play([bash("touch allowed"), say("Done.")]);
		const directory = await agent.folder();
		await using before = await agent.converse(directory);
		await before.send("Go");
		const client = agent.client(directory);
		await until(async () => (await client.pendingAsks("permission")).length === 1);
		await using talk = await agent.converse(directory, { sessionId: before.sessionId! });
		const asks: string[] = [];
		using _allow = talk.decideWith(async ({ tool }) => {
			asks.push(tool);
			return await allow();
		});
		await before.settled();
		expect(asks).toEqual(["bash"]);
		expect(existsSync(join(directory, "allowed"))).toBe(true);
	});

	test("those of another session in the same directory are none of ours", async () => {
		await agent.play([bash("touch asked"), say("Done.")]);
		const directory = await agent.folder();
		await using stranger = await agent.converse(directory);
		await stranger.send("Go");
		const client = agent.client(directory);
		await until(async () => (await client.pendingAsks("permission")).length === 1);
		await using talk = await agent.converse(directory);
		const sessions: string[] = [];
		using _allow = talk.decideWith(async ({ sessionId }) => {
			sessions.push(sessionId);
			return await allow();
		});
		const seen = watch(talk);
		await talk.send("Go");
		await talk.settled();
		// Found at a connection, too.
		agent.cutter.cutEvents();
		await seen.until(({ type }) => type === "gap");
		await agent.play([say("More.")]);
		await talk.send("More");
		await talk.settled();
		expect(sessions).toEqual([talk.sessionId]);
		expect(JSON.stringify(seen.events)).not.toContain(stranger.sessionId);
		expect(await client.pendingAsks("permission")).toMatchObject([{ sessionID: stranger.sessionId }]);
		await stranger.interrupt();
	});

	test("one whose decider throws, and one nobody decides in time, are denied with a reason", async () => {
		await agent.play([bash("touch no"), say("Then not."), bash("touch no"), say("Not then, either.")]);
		const directory = await agent.folder();
		await using talk = await agent.converse(directory, { times: { decideMs: 1_500 } });
		const signals: AbortSignal[] = [];
		using _decide = talk.decideWith(async (_ask, signal) => {
			signals.push(signal);
			if (signals.length === 1) throw new Error("broken");
			return await new Promise(() => {});
		});
		const seen = watch(talk);
		for (const text of ["Go", "Again"]) {
			await talk.send(text);
			await talk.settled();
		}
		expect(seen.ends.map(({ end }) => end.by)).toEqual(["failure", "deadline"]);
		expect(seen.turns.map(({ text }) => text)).toEqual(["Then not.", "Not then, either."]);
		expect(signals.every((signal) => signal.aborted)).toBe(true);
		expect(existsSync(join(directory, "no"))).toBe(false);
	});

	test("one that somebody else answers first is let go", async () => {
		await agent.play([bash("touch allowed"), say("Done.")]);
		const directory = await agent.folder();
		await using talk = await agent.converse(directory);
		const signals: AbortSignal[] = [];
		using _decide = talk.decideWith(async ({ id }, signal) => {
			signals.push(signal);
			await agent.client(directory).replyPermission(id, "once");
			return await new Promise(() => {});
		});
		const seen = watch(talk);
		await talk.send("Go");
		await talk.settled();
		expect(seen.ends).toMatchObject([{ end: { reply: "once", by: "elsewhere" } }]);
		expect(signals[0]!.aborted).toBe(true);
		expect(existsSync(join(directory, "allowed"))).toBe(true);
	});

	test("a question that a person dismisses ends the turn; a sub-agent's is answered like any other", async () => {
		await agent.play([askColour, subagent("Ask"), say("Done.")], [askColour, say("Red.")]);
		await using talk = await agent.converse(await agent.folder());
		const asks: QuestionAsk[] = [];
		using _answer = talk.answerWith(async (ask) => {
			asks.push(ask);
			return { answers: ask.isChild ? [["red"]] : null, by: "test" };
		});
		const seen = watch(talk);
		await talk.send("Ask me");
		await talk.settled();
		expect(seen.turns).toMatchObject([{ ended: "answered", text: "" }]);
		await talk.send("Let somebody ask");
		await talk.settled();
		expect(asks.map(({ isChild }) => isChild)).toEqual([false, true]);
		expect(seen.ends.map(({ end }) => [end.reply, end.by])).toEqual([
			["reject", "test"],
			["answer", "test"],
		]);
		expect(seen.turns.at(-1)).toMatchObject({ ended: "answered", text: "Done." });
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

function isText({ type }: Record<string, unknown>): boolean {
	return type === "text";
}

async function until(found: () => Promise<boolean>): Promise<void> {
	while (!(await found())) await delay(20);
}
