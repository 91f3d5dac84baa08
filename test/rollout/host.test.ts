import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { deliverableBlob } from "../../src/model/blob.ts";
import { ConversationRequest, toRequest } from "../../src/model/conversation.ts";
import type { RolloutEvent } from "../../src/model/event.ts";
import { newConversationId } from "../../src/model/id.ts";
import type { StoredTerms } from "../../src/model/request.ts";
import { handle } from "../../src/rollout/handle.ts";
import { Turnstiles } from "../../src/rollout/turnstile.ts";
import { openProcessBackend } from "../../src/sandbox/process/process.ts";
import { follow } from "../../src/store/follow.ts";
import { openStage, type Stage } from "./fixture.ts";
import { talkingAgent } from "./talking-agent.ts";

/** What is shown here is the story, not the walls. */
const backend = () => openProcessBackend({ warn: () => {} });

test("an open conversation takes turns until somebody closes it, and its end is the last event", async () => {
	await using stage = await openStage(talkingAgent(), backend);
	const id = await submit(stage);
	const worker = work(stage, id);
	await say(stage, id, "echo one");
	await answered(stage, id, "one");
	await say(stage, id, "echo two");
	await answered(stage, id, "two");
	await stage.store.requestAbort({ id });
	expect(await worker.end).toBe("done");
	const events = await all(stage, id);
	expect(events.at(-1)).toMatchObject({ type: "conversation-end", reason: "asked", failure: null });
	expect(await stage.store.conversation(id)).toMatchObject({ status: "closed", closed: "asked" });
});

test("an idle conversation takes no place at its endpoint, and rollouts take none of the conversations'", async () => {
	await using stage = await openStage(talkingAgent(), backend);
	const folder = await mkdtemp(join(tmpdir(), "paddock-gate-"));
	const gate = join(folder, "open");
	const deps = { ...stage.deps, turnSlots: new Turnstiles(1), endpointSlots: new Turnstiles(1) };
	// A rollout that does not end has the only place for rollouts.
	using _rollout = await deps.endpointSlots.enter(stage.deps.policies.baseUrl);
	const narrow = { ...stage, deps };
	const [idle, busy] = [await submit(stage), await submit(stage)];
	const workers = [work(narrow, idle), work(narrow, busy)];
	await say(stage, idle, "echo one");
	await answered(stage, idle, "one");
	await say(stage, busy, `until [ -e ${gate} ]; do sleep 0.05; done; echo two`);
	await until(stage, busy, (event) => event.type === "message-sent");
	// The place is taken: who speaks now waits for it, and is heard.
	await say(stage, idle, "echo three");
	await writeFile(gate, "");
	await answered(stage, busy, "two");
	await answered(stage, idle, "three");
	for (const worker of workers) worker.leave();
	await Promise.all(workers.map(({ end }) => end));
	await rm(folder, { recursive: true });
});

test("what was said with the request is said first, and once, whoever hosts it", async () => {
	await using stage = await openStage(talkingAgent(), backend);
	const id = await submit(stage, {}, { opening: { text: "echo begin >> said", by: "anna" } });
	await say(stage, id, "cat said; echo next", "m1");
	const first = work(stage, id);
	await answered(stage, id, "begin\nnext");
	await kept(stage, id);
	first.drain();
	await first.end;
	await say(stage, id, "cat said; echo last", "m2");
	const second = work(stage, id);
	await answered(stage, id, "begin\nlast");
	second.leave();
	await second.end;
});

test("what is sent twice under one name is said once, also across workers", async () => {
	await using stage = await openStage(talkingAgent(), backend);
	const id = await submit(stage);
	const first = work(stage, id);
	await say(stage, id, "echo one >> said; cat said", "m1");
	await say(stage, id, "echo one >> said; cat said", "m1");
	await answered(stage, id, "one");
	await kept(stage, id);
	first.leave();
	expect(await first.end).toBe("retry");
	await say(stage, id, "echo one >> said; cat said", "m1");
	const second = work(stage, id);
	await say(stage, id, "cat said; echo end", "m2");
	await answered(stage, id, "one\nend");
	second.leave();
	await second.end;
});

test("moved to another worker it has its session, its history and its files, and tries are not used up", async () => {
	const agent = talkingAgent();
	await using stage = await openStage(agent, backend);
	const id = await submit(stage, { files: [{ path: "given", content: "given" }] });
	const first = work(stage, id);
	await say(stage, id, "rm given; echo made > made; echo one");
	await answered(stage, id, "one");
	await kept(stage, id);
	first.leave();
	await first.end;
	const second = work(stage, id);
	await say(stage, id, "ls; echo two");
	await answered(stage, id, "made\ntwo");
	expect(agent.made).toBe(1);
	expect(await stage.store.get(id)).toMatchObject({ attempt: 2, handedBack: 1 });
	expect(await all(stage, id, "turn-end", 2)).toContainEqual(
		expect.objectContaining({ type: "state-restored", messages: 2 }),
	);
	second.leave();
	await second.end;
});

test("a worker that drains lets a turn come to its end, and then lets go at once", async () => {
	await using stage = await openStage(talkingAgent(), backend);
	const id = await submit(stage);
	const first = work(stage, id);
	await say(stage, id, "sleep 0.5; echo one");
	await until(stage, id, (event) => event.type === "message-sent");
	first.drain();
	expect(await first.end).toBe("retry");
	const events = await stage.store.events(id, { after: 0, limit: 100 });
	expect(events.map((event) => event.type)).toEqual(expect.arrayContaining(["turn-end", "state-saved"]));
	expect(await stage.store.get(id)).toMatchObject({ status: "queued", handedBack: 1 });
});

test("an agent that dies in mid-turn is replaced, and what it was told is said again", async () => {
	const agent = talkingAgent();
	await using stage = await openStage(agent, backend);
	const id = await submit(stage);
	const first = work(stage, id);
	await say(stage, id, "echo kept > file; echo one");
	await answered(stage, id, "one");
	await kept(stage, id);
	await say(stage, id, "echo lost > file; if [ -e now ]; then sleep 300; fi; cat file; sleep 0.3");
	await until(stage, id, (event) => event.type === "message-sent" && event.text.includes("lost"));
	agent.crash();
	expect(await first.end).toBe("retry");
	const second = work(stage, id);
	await answered(stage, id, "lost");
	const events = await all(stage, id, "turn-end", 2);
	expect(events).toContainEqual(
		expect.objectContaining({
			type: "attempt-failed",
			failure: expect.objectContaining({ code: "agent_crashed" }),
		}),
	);
	expect(events.filter((event) => event.type === "message-sent" && event.again)).toHaveLength(1);
	second.leave();
	await second.end;
});

test("one whose agent dies again and again is closed, and says why", async () => {
	const agent = talkingAgent();
	await using stage = await openStage(agent, backend);
	const id = await submit(stage, { maxAttempts: 2 });
	for (const end of ["retry", "done"]) {
		const worker = work(stage, id);
		await until(stage, id, (event) => event.type === "session-start", end === "done" ? 2 : 1);
		agent.crash();
		expect(await worker.end).toBe(end);
	}
	expect(await stage.store.conversation(id)).toMatchObject({
		closed: "failed",
		failure: { code: "agent_crashed" },
	});
});

test("what a person interrupted is not said again", async () => {
	const agent = talkingAgent();
	await using stage = await openStage(agent, backend);
	const id = await submit(stage);
	const first = work(stage, id);
	await say(stage, id, "sleep 300");
	await until(stage, id, (event) => event.type === "message-sent");
	await stage.store.post(id, { type: "interrupt", by: "anna" });
	await until(stage, id, (event) => event.type === "interrupted");
	agent.crash();
	await first.end;
	const second = work(stage, id);
	await say(stage, id, "echo free");
	await answered(stage, id, "free");
	second.leave();
	await second.end;
});

test("idle for too long, or too old, it closes by itself and says which", async () => {
	await using stage = await openStage(talkingAgent(), backend);
	const idle = await submit(stage, { idleS: 0.2 });
	await say(stage, idle, "echo one");
	await work(stage, idle).end;
	expect((await all(stage, idle)).at(-1)).toMatchObject({ type: "conversation-end", reason: "idle" });
	const old = await submit(stage, { lifetimeS: 1.5 });
	await say(stage, old, "sleep 300");
	await work(stage, old).end;
	const events = await all(stage, old);
	expect(events.at(-1)).toMatchObject({ type: "conversation-end", reason: "lifetime" });
	expect(events).toContainEqual(expect.objectContaining({ type: "turn-end", ended: "interrupted" }));
});

test("commands before and after run in its box, and how they ended is told", async () => {
	await using stage = await openStage(talkingAgent(), backend);
	const id = await submit(stage, { before: ["echo hello > hook"], after: ["cat hook; exit 3"] });
	const worker = work(stage, id);
	await say(stage, id, "cat hook");
	await answered(stage, id, "hello");
	await stage.store.requestAbort({ id });
	await worker.end;
	const events = await all(stage, id);
	expect(events.filter((event) => event.type === "after-end")).toMatchObject([
		{ result: { exitCode: 3, stdout: "hello\n" } },
	]);
});

test("declared files are kept and announced when they appear and when they have changed, across workers once", async () => {
	await using stage = await openStage(talkingAgent(), backend);
	const id = await submit(stage, { deliverables: ["**/*.txt", "report"] });
	const first = work(stage, id);
	await say(stage, id, "mkdir -p out; echo a > out/a.txt; echo no > out/b.bin; echo r > report; echo one");
	await answered(stage, id, "one");
	await kept(stage, id);
	first.leave();
	await first.end;
	const second = work(stage, id);
	await say(stage, id, "echo more >> out/a.txt; ln -s /etc/passwd link.txt; echo two");
	await answered(stage, id, "two");
	await stage.store.requestAbort({ id });
	await second.end;
	const told = (await all(stage, id)).filter((event) => event.type === "deliverable");
	expect(told.map(({ path, sizeBytes }) => `${path} ${sizeBytes}`).sort()).toEqual([
		"out/a.txt 2",
		"out/a.txt 7",
		"report 2",
	]);
	const keptFile = await stage.store.lastBlob(id, deliverableBlob("out/a.txt"));
	expect(keptFile?.toString()).toBe("a\nmore\n");
});

async function submit(stage: Stage, fields: object = {}, own: Partial<StoredTerms> = {}): Promise<string> {
	const endpoint = { type: "policy", policy: "noop" };
	const { request, terms } = toRequest(ConversationRequest.parse({ endpoint, ...fields }));
	const id = newConversationId();
	await stage.store.submit({
		rollouts: [{ id, request: { ...request, conversation: { ...terms, keyed: false, ...own } } }],
	});
	return id;
}

function work(stage: Stage, id: string) {
	const leaving = new AbortController();
	const draining = new AbortController();
	const job = { rolloutId: id, signal: leaving.signal, draining: draining.signal };
	const end = handle(job, stage.deps, "w");
	return { end, leave: () => leaving.abort(), drain: () => draining.abort() };
}

async function say(stage: Stage, id: string, text: string, name?: string): Promise<void> {
	await stage.store.post(id, { type: "send", text, by: "test", id: name ?? `m-${text}` });
}

async function until(
	stage: Stage,
	id: string,
	found: (event: RolloutEvent) => boolean,
	times = 1,
): Promise<void> {
	let seen = 0;
	for await (const event of follow(stage.store, id)) if (found(event) && ++seen === times) return;
	throw new Error(`${id} ended without it`);
}

async function answered(stage: Stage, id: string, text: string): Promise<void> {
	await until(stage, id, (event) => event.type === "turn-end" && event.text === text);
}

async function kept(stage: Stage, id: string): Promise<void> {
	await until(stage, id, (event) => event.type === "state-saved");
}

/** Until it is closed; or until the so-manieth event of a type. */
async function all(stage: Stage, id: string, type?: string, times = 1): Promise<RolloutEvent[]> {
	const events: RolloutEvent[] = [];
	for await (const event of follow(stage.store, id)) {
		events.push(event);
		if (events.filter((told) => told.type === type).length === times) break;
	}
	return events;
}
