import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Conversation } from "../../src/agent/agent.ts";
import {
	type DriveTurnOptions,
	driveTurn,
	type TurnReply,
	type TurnTarget,
} from "../../src/conversation/drive-turn.ts";
import { driveTurnInto } from "../../src/conversation/sink.ts";
import { type LiveAgent, openLiveAgent } from "../fixtures/live-agent.ts";
import { bash, say } from "../fixtures/script.ts";

/** All against the real `opencode serve`, with a scripted model behind it. */
let agent: LiveAgent;
beforeAll(async () => {
	agent = await openLiveAgent();
}, 180_000);
afterAll(async () => await agent?.[Symbol.asyncDispose]());

describe("a turn", () => {
	test("says deltas and then one final, each with the trace id; together the deltas are the final", async () => {
		await agent.play([{ reasoning: "Let me think.", text: "One two three four." }]);
		const replies = await drive("Hi", { traceId: "trace-1" });
		expect(replies.every(({ traceId }) => traceId === "trace-1")).toBe(true);
		expect(deltas(replies)).toBe("One two three four.");
		expect(replies.at(-1)).toMatchObject({ kind: "final", content: "One two three four." });
		expect(replies.filter(isEnd)).toHaveLength(1);
	});

	test("without a trace id has one of its own", async () => {
		await agent.play([say("Yes.")]);
		const ids = new Set((await drive("Hi")).map(({ traceId }) => traceId));
		expect([...ids]).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/)]);
	});

	test("of several messages ends with the last one's text; a sub-agent's words are not in it", async () => {
		const task = { tool: "task", args: { description: "look", prompt: "Look", subagent_type: "general" } };
		await agent.play([{ text: "First.", calls: [task] }, say("Second.")], [say("A sub-agent speaks.")]);
		const replies = await drive("Go", { permission: "allow" });
		expect(deltas(replies)).toBe("Second.");
		expect(JSON.stringify(replies)).not.toContain("sub-agent");
		expect(replies.at(-1)).toMatchObject({ kind: "final", content: "Second." });
	});

	test.each([
		["deny", false],
		["allow", true],
	] as const)("under the policy %s does not hang on an ask", async (permission, isDone) => {
		await agent.play([bash("touch asked"), say("Done.")]);
		const directory = await agent.folder();
		const replies = await drive("Go", { permission }, directory);
		expect(replies.at(-1)).toMatchObject({ kind: "final", content: "Done." });
		expect(existsSync(join(directory, "asked"))).toBe(isDone);
	});

	test("does not hang on a question: nobody is there to answer, and the turn ends with it", async () => {
		const question = { question: "Which?", header: "Which", options: [{ label: "this", description: "" }] };
		await agent.play([
			{ calls: [{ tool: "question", args: { questions: [question] } }] },
			say("Never said."),
		]);
		expect(await drive("Go")).toMatchObject([{ kind: "final", content: "" }]);
	});

	test("asks the model and the agent that were named, and closes what was opened for it", async () => {
		await agent.play([say("Yes.")]);
		const directory = await agent.folder();
		const target = await talk(directory);
		const replies = await collect({ open: async () => target }, "Hi", {
			model: "paddock/other",
			agent: "plan",
		});
		expect(replies.at(-1)).toMatchObject({ kind: "final" });
		expect(await target.closed).toMatchObject({ code: "asked", message: "its turn is over" });
		const [asked, answer] = await agent.client(directory).messages(target.sessionId!);
		expect(asked!.info).toMatchObject({
			agent: "plan",
			model: { providerID: "paddock", modelID: "other" },
		});
		expect(answer!.info).toMatchObject({ modelID: "other", agent: "plan" });
	});

	test("is reset when the model breaks off and begins again", async () => {
		const whole = "It has begun, Quite, and that is all.";
		await agent.play([say(whole)]);
		const target = await talk();
		agent.modelWire.disturb("/chat/completions", { holdFrom: "Q" });
		const replies: TurnReply[] = [];
		for await (const reply of driveTurn(target, "Go")) {
			replies.push(reply);
			if (replies.length > 1) continue;
			agent.modelWire.setDown(true);
			agent.modelWire.setDown(false);
		}
		expect(replies[0]).toMatchObject({ kind: "delta", content: expect.stringMatching(/^It/) });
		expect(replies.filter(({ kind }) => kind === "reset")).toHaveLength(1);
		expect(deltas(replies)).toBe(whole);
		expect(replies.at(-1)).toMatchObject({ kind: "final", content: whole });
		await target.finish();
	});

	test("forwards an ask to whoever was named", async () => {
		await agent.play([bash("touch asked"), say("Done.")]);
		const tools: string[] = [];
		const replies = await drive("Go", {
			permission: async (ask) => {
				tools.push(ask.tool);
				return { behavior: "deny", by: "test", message: "no" };
			},
		});
		expect(tools).toEqual(["bash"]);
		expect(replies.at(-1)).toMatchObject({ kind: "final" });
	});

	test("ends with the answer to its own message, whatever else is said in the same conversation", async () => {
		await agent.play([say("To somebody else."), say("To you.")]);
		const target = await talk();
		const replies = await collect(whileSending(target, "Somebody else's"), "Mine", {});
		expect(deltas(replies)).toBe("To you.");
		expect(JSON.stringify(replies)).not.toContain("somebody");
		expect(replies.at(-1)).toMatchObject({ kind: "final", content: "To you." });
		await target.finish();
	});

	test("that is cut off in the middle recovers, and no text is doubled", async () => {
		const words = "word ".repeat(200).trim();
		await agent.play([{ ...bash("sleep 0.3"), text: "Wait." }, say(words)]);
		const target = await talk();
		const replies: TurnReply[] = [];
		for await (const reply of driveTurn(target, "Go", { permission: "allow" })) {
			replies.push(reply);
			if (reply.kind === "delta") agent.cutter.cutEvents();
		}
		expect(deltas(replies)).toBe(words);
		expect(replies.at(-1)).toMatchObject({ kind: "final", content: words });
		await target.finish();
	});
});

describe("it ends with one error and throws nothing", () => {
	test.each([
		["a timeout of 0", "Hi", { timeoutMs: 0 }],
		["a timeout that is no number", "Hi", { timeoutMs: Number.NaN }],
		["no text", "", {}],
		["a model without a provider", "Hi", { model: "m" }],
	] as [string, string, DriveTurnOptions][])("for %s", async (_what, text, options) => {
		await agent.play([say("x")]);
		expect(await drive(text, options)).toMatchObject([{ kind: "error", code: "invalid" }]);
	});

	test("for no target", async () => {
		for (const target of [null, undefined])
			expect(await collect(target as never, "Hi", {})).toMatchObject([{ kind: "error", code: "invalid" }]);
	});

	test("when the prompt fails: a session that is gone, a model that nobody knows", async () => {
		const directory = await agent.folder();
		const target = await talk(directory);
		await agent.client(directory).deleteSession(target.sessionId!);
		const gone = await collect(target, "Hi", {});
		expect(gone).toMatchObject([{ kind: "error", code: "session_not_found", retryable: false }]);
		await target.finish();
		const unknown = await drive("Hi", { model: "paddock/nobody-knows" });
		expect(unknown).toMatchObject([{ kind: "error", code: "provider" }]);
		expect(JSON.stringify(unknown)).not.toContain("nobody-knows");
	});

	test("when the conversation cannot be opened, without a word of why", async () => {
		const target = { open: () => Promise.reject(new Error("secret details")) };
		const logged: string[] = [];
		const replies = await collect(target, "Hi", { log: (text) => logged.push(text) });
		expect(replies).toMatchObject([{ kind: "error", code: "internal", retryable: false }]);
		expect(JSON.stringify(replies)).not.toContain("secret");
		expect(logged).toEqual(["secret details"]);
	});

	test("when time is up, and the agent stops", async () => {
		await agent.play([bash("echo $$ > pid; sleep 300"), say("x")]);
		const directory = await agent.folder();
		const target = await talk(directory);
		const replies = await collect(target, "Go", { permission: "allow", timeoutMs: 3_000 });
		expect(replies).toMatchObject([{ kind: "error", code: "timeout", retryable: true }]);
		await until(async () => !target.pending);
		const pid = (await readFile(join(directory, "pid"), "utf8")).trim();
		await until(async () => !existsSync(`/proc/${pid}`));
		await target.finish();
	});

	test("when the caller's signal fires", async () => {
		await agent.play([bash("sleep 300"), say("x")]);
		const stop = new AbortController();
		const target = await talk();
		target.subscribe((event) => {
			if (event.type === "agent-event" && JSON.stringify(event).includes('"running"')) stop.abort();
		});
		const replies = await collect(target, "Go", { permission: "allow", signal: stop.signal });
		expect(replies).toMatchObject([{ kind: "error", code: "aborted" }]);
		await until(async () => !target.pending);
		await target.finish();
	});

	test("when the server of an address is out of reach for too long", async () => {
		await agent.play([bash("sleep 2"), say("x")]);
		const target = await agent.converse(await agent.folder());
		target.subscribe((event) => {
			if (event.type === "agent-event" && JSON.stringify(event).includes('"running"'))
				agent.cutter.setDown(true);
		});
		try {
			const replies = await collect(target, "Go", { permission: "allow", lostMs: 300 });
			expect(replies).toMatchObject([{ kind: "error", code: "transport", retryable: true }]);
		} finally {
			agent.cutter.setDown(false);
		}
		await target.interrupt();
		expect(target.pending).toBe(false);
		await target.finish();
	});

	test("while another turn is being worked on; or waits for it, if that was asked for", async () => {
		await agent.play([bash("sleep 1"), say("First."), say("Second.")]);
		const target = await talk();
		const first = collect(target, "One", { permission: "allow" });
		await until(async () => target.pending);
		expect(await collect(target, "Two", {})).toMatchObject([
			{ kind: "error", code: "busy", retryable: true },
		]);
		const queued = collect(target, "Three", { whenBusy: "queue" });
		expect((await first).at(-1)).toMatchObject({ kind: "final", content: "First." });
		expect((await queued).at(-1)).toMatchObject({ kind: "final", content: "Second." });
		await target.finish();
	});

	test("of two turns on one session the second waits, though each opened it for itself", async () => {
		await agent.play([bash("sleep 1"), say("First."), say("Second.")]);
		const directory = await agent.folder();
		await using watching = await talk(directory);
		const target = { open: () => agent.converse(directory, { sessionId: watching.sessionId! }) };
		const first = collect(target, "One", { permission: "allow" });
		await until(async () => watching.pending);
		const second = collect(target, "Two", { whenBusy: "queue" });
		expect((await first).at(-1)).toMatchObject({ kind: "final", content: "First." });
		expect((await second).at(-1)).toMatchObject({ kind: "final", content: "Second." });
		const roles = (await watching.messages()).map(({ info }) => info.role);
		expect(roles).toEqual(["user", "assistant", "assistant", "user", "assistant"]);
	});

	test("when the server is killed in mid-turn; no process is left, and the next turn works", async () => {
		await agent.play([bash("echo $$ > pid; sleep 300"), say("x")]);
		const directory = await agent.folder();
		const target = await talk(directory);
		const ended = target.closed;
		const driving = collect(target, "Go", { permission: "allow", timeoutMs: 60_000 });
		await until(async () => existsSync(join(directory, "pid")));
		const pid = (await readFile(join(directory, "pid"), "utf8")).trim();
		agent.killServer();
		const replies = await driving;
		expect(replies).toMatchObject([{ kind: "error", code: "transport" }]);
		expect(await ended).toMatchObject({ code: "agent_crashed" });
		await until(async () => !existsSync(`/proc/${pid}`));
		await agent.revive();
		await agent.play([say("Back again.")]);
		const again = await collect(await agent.open(directory), "Hi", {});
		expect(again.at(-1)).toMatchObject({ kind: "final", content: "Back again." });
	});
});

describe("whoever listens", () => {
	test("may stop at any time: the agent is interrupted", async () => {
		await agent.play([{ ...bash("sleep 300"), text: "I will sleep." }, say("x")]);
		const target = await talk();
		for await (const reply of driveTurn(target, "Go", { permission: "allow" }))
			if (reply.kind === "delta") break;
		await until(async () => !target.pending);
		await target.finish();
	});

	test.each([
		[
			"throws",
			() => {
				throw new Error("sink");
			},
		],
		["rejects", () => Promise.reject(new Error("sink"))],
		["never returns", () => new Promise(() => {})],
		["is synchronous", () => null],
	] as [string, () => unknown][])(
		"as a sink that %s does not keep the turn from its end",
		async (_how, behave) => {
			await agent.play([say("One two.")]);
			const kinds: string[] = [];
			const target = await talk();
			await driveTurnInto(
				(reply) => {
					kinds.push(reply.kind);
					return behave();
				},
				target,
				"Hi",
				{ sinkMs: 50 },
			);
			expect(kinds.at(-1)).toBe("final");
			await target.finish();
		},
	);
});

async function talk(directory?: string) {
	return await agent.open(directory ?? (await agent.folder()));
}

async function drive(text: string, options: DriveTurnOptions = {}, directory?: string): Promise<TurnReply[]> {
	const folder = directory ?? (await agent.folder());
	return await collect({ open: () => agent.open(folder) }, text, options);
}

async function collect(target: TurnTarget, text: string, options: DriveTurnOptions): Promise<TurnReply[]> {
	return await Array.fromAsync(driveTurn(target, text, options));
}

/** Somebody else is quicker: their message is heard and answered while ours is on its way. */
function whileSending(target: Conversation, other: string): Conversation {
	const send: Conversation["send"] = async (text, options) => {
		await target.send(other);
		await target.settled();
		return await target.send(text, options);
	};
	return new Proxy(target, {
		get: (_, name) => {
			if (name === "send") return send;
			const value = Reflect.get(target, name, target);
			return typeof value === "function" ? value.bind(target) : value;
		},
	});
}

/** Since the last reset. */
function deltas(replies: TurnReply[]): string {
	const from = replies.findLastIndex(({ kind }) => kind === "reset") + 1;
	return replies
		.slice(from)
		.flatMap((reply) => (reply.kind === "delta" ? [reply.content] : []))
		.join("");
}

function isEnd({ kind }: TurnReply): boolean {
	return kind === "final" || kind === "error";
}

async function until(found: () => Promise<boolean>): Promise<void> {
	while (!(await found())) await delay(20);
}
