import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Agent, BootedAgent, Conversation, ConversationEvent, Turn } from "../../src/agent/agent.ts";
import { openRefresher } from "../../src/credential/refresher/refresher.ts";
import { openGateway } from "../../src/gateway/agent-side/server.ts";
import { Reach } from "../../src/gateway/upstream/reach.ts";
import { AgentHost } from "../../src/kept/host.ts";
import { LocalLive } from "../../src/live/local.ts";
import type { EndpointSpec } from "../../src/model/endpoint.ts";
import { newId } from "../../src/model/id.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import type { Task } from "../../src/model/task.ts";
import { openPolicyServer } from "../../src/policy/server.ts";
import { ColdBoxes } from "../../src/rollout/boxes/cold-boxes.ts";
import type { ReadyDeps } from "../../src/rollout/boxes/ready-box.ts";
import type { Deps } from "../../src/rollout/deps.ts";
import { run } from "../../src/rollout/run.ts";
import { Turnstile, Turnstiles } from "../../src/rollout/turnstile.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Backend, Sandbox } from "../../src/sandbox/sandbox.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { RolloutEnd, Store } from "../../src/store/store.ts";
import { verify } from "../../src/verify/verifier.ts";
import { tellIfTestFails } from "../fixtures/last-rollouts.ts";

/** A stage for the story: real boxes, store, gateway and verifier; the agent is a shell script. */
export interface Stage extends AsyncDisposable {
	/** Where everything is kept. */
	home: string;
	store: Store;
	ready: ReadyDeps;
	deps: Deps;
	play(task: Task, options?: PlayOptions): Promise<RolloutEnd & { id: string; notes: string[] }>;
}

export interface PlayOptions {
	change?: (deps: Deps) => Deps;
	stop?: AbortSignal;
	endpoint?: EndpointSpec;
}

export async function openStage(
	agent: Agent,
	openBackend: () => Promise<Backend> = openLocalBackend,
): Promise<Stage> {
	await using stack = new AsyncDisposableStack();
	const home = await mkdtemp(join(tmpdir(), "paddock-story-"));
	stack.defer(() => rm(home, { recursive: true, force: true }));
	const store = stack.use(await openSqliteStore({ home }));
	stack.use(tellIfTestFails(store));
	const gateway = stack.use(await openGateway());
	const policies = stack.use(await openPolicyServer());
	const boxes = stack.use(await openBackend());
	const backend = async () => boxes;
	const ready = { gateway, agent, backend, starts: new Turnstile(2) };
	const deps: Deps = {
		...{ store, gateway, agent, policies, verify, backend },
		live: new LocalLive(),
		boxes: new ColdBoxes(ready),
		reach: new Reach(),
		kept: stack.use(new AgentHost({ store, home, env: {}, warn: () => {} })),
		refresher: stack.use(openRefresher({ type: "sqlite", home })),
		maxTraceBytes: 1024 * 1024 * 1024,
		endpointSlots: new Turnstiles(Number.POSITIVE_INFINITY),
		turnSlots: new Turnstiles(Number.POSITIVE_INFINITY),
		env: {},
		warn: () => {},
	};
	const owned = stack.move();
	return {
		home,
		store,
		ready,
		deps,
		async play(task, options = {}) {
			const { change = (same: Deps) => same, stop = new AbortController().signal, endpoint } = options;
			const request = requestOf(task, endpoint);
			const id = newId("ro");
			await store.submit({ rollouts: [{ id, request }], groups: [] });
			const rollout = await store.begin(id, "test");
			const end = await run(rollout!, change(deps), stop);
			const events = await store.events(id, { after: 0, limit: 1_000 });
			return { ...end, id, notes: events.flatMap((event) => (event.type === "note" ? [event.text] : [])) };
		},
		[Symbol.asyncDispose]: () => owned.disposeAsync(),
	};
}

export function requestOf(
	task: Task,
	endpoint: EndpointSpec = { type: "policy", policy: "noop" },
): RolloutRequest {
	return RolloutRequest.parse({ task, endpoint });
}

/** An agent that runs `script` in the workdir, whatever it is told. */
export function scriptAgent(script: string, change: Partial<BootedAgent> = {}): Agent {
	return {
		name: "script",
		version: "1",
		boot: async (box) => ({
			prime: async () => {},
			openAhead: async () => {},
			ping: async () => {},
			open: async (directory) => scriptConversation(box, directory, script),
			exportSession: async () => ({ info: {}, messages: [] }),
			importSession: async () => {},
			logTail: async () => "",
			[Symbol.asyncDispose]: async () => {},
			...change,
		}),
	};
}

/** What is sent to it does not matter: it runs the script, and that is its turn. */
export function scriptConversation(
	box: Sandbox,
	cwd: string,
	script: string,
	ended: Turn["ended"] = "answered",
): Conversation {
	const handlers = new Set<(event: ConversationEvent) => unknown>();
	const settled = Promise.withResolvers<void>();
	const stop = new AbortController();
	let pending = false;
	const emit = (event: ConversationEvent) => {
		for (const handler of handlers) handler(event);
	};
	const work = async () => {
		try {
			await box.exec(script, { cwd, signal: stop.signal });
		} catch (error) {
			if (!stop.signal.aborted && !(await box.hasBrokenItself())) throw error;
		}
		pending = false;
		emit({ type: "turn-end", turn: { messageId: "msg_1", ended, text: "", error: null, tokens: null } });
		settled.resolve();
	};
	const none = { [Symbol.dispose]: () => {} };
	return {
		sessionId: null,
		status: { type: "idle" },
		get pending() {
			return pending;
		},
		closed: new Promise(() => {}),
		subscribe(handler) {
			handlers.add(handler);
			return { [Symbol.dispose]: () => void handlers.delete(handler) };
		},
		decideWith: () => none,
		answerWith: () => none,
		async send() {
			pending = true;
			void work();
			return "msg_1";
		},
		async interrupt() {
			stop.abort();
			await settled.promise;
		},
		setModel: () => {},
		settled: () => settled.promise,
		asks: () => [],
		messages: async () => [],
		finish: async () => {},
		[Symbol.asyncDispose]: async () => {},
	};
}

/** The same box, except for what `change` says. */
export function changed<T extends object>(thing: T, change: Partial<T>): T {
	return new Proxy(thing, {
		get(target, name) {
			const own = name in change ? Reflect.get(change, name) : Reflect.get(target, name);
			return typeof own === "function" && !(name in change) ? own.bind(target) : own;
		},
	});
}
