import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Agent, AgentRun, BootedAgent } from "../../src/agent/agent.ts";
import { openGateway } from "../../src/gateway/agent-side/server.ts";
import type { EndpointSpec } from "../../src/model/endpoint.ts";
import { newId } from "../../src/model/id.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import type { Task } from "../../src/model/task.ts";
import { openPolicyServer } from "../../src/policy/server.ts";
import { ColdBoxes } from "../../src/rollout/cold-boxes.ts";
import type { Deps } from "../../src/rollout/deps.ts";
import type { ReadyDeps } from "../../src/rollout/ready-box.ts";
import { run } from "../../src/rollout/run.ts";
import { Turnstile, Turnstiles } from "../../src/rollout/turnstile.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Sandbox } from "../../src/sandbox/sandbox.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { RolloutEnd, Store } from "../../src/store/store.ts";
import { verify } from "../../src/verify/clean-box.ts";
import { tellIfTestFails } from "../fixtures/last-rollouts.ts";

/** A stage for the story: real boxes, store, gateway and verifier; the agent is a shell script. */
export interface Stage extends AsyncDisposable {
	store: Store;
	ready: ReadyDeps;
	deps: Deps;
	play(task: Task, options?: PlayOptions): Promise<RolloutEnd & { notes: string[] }>;
}

export interface PlayOptions {
	change?: (deps: Deps) => Deps;
	stop?: AbortSignal;
	endpoint?: EndpointSpec;
}

export async function openStage(agent: Agent): Promise<Stage> {
	await using stack = new AsyncDisposableStack();
	const home = await mkdtemp(join(tmpdir(), "paddock-story-"));
	stack.defer(() => rm(home, { recursive: true, force: true }));
	const store = stack.use(await openSqliteStore({ home }));
	stack.use(tellIfTestFails(store));
	const gateway = stack.use(await openGateway());
	const policies = stack.use(await openPolicyServer());
	const boxes = stack.use(await openLocalBackend());
	const backend = async () => boxes;
	const ready = { gateway, agent, backend, starts: new Turnstile(2) };
	const deps: Deps = {
		...{ store, gateway, agent, policies, verify, backend },
		boxes: new ColdBoxes(ready),
		endpointSlots: new Turnstiles(Number.POSITIVE_INFINITY),
		env: {},
		warn: () => {},
	};
	const owned = stack.move();
	return {
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
			return { ...end, notes: events.flatMap((event) => (event.type === "note" ? [event.text] : [])) };
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
			begin: async ({ directory }) => beginScript(box, directory, script),
			logTail: async () => "",
			[Symbol.asyncDispose]: async () => {},
			...change,
		}),
	};
}

function beginScript(box: Sandbox, cwd: string, script: string): AgentRun {
	return {
		sessionId: null,
		async wait(signal) {
			try {
				const { exitCode } = await box.exec(script, { cwd, signal });
				return { outcome: "completed", exitCode, error: null };
			} catch (error) {
				if (!signal.aborted) throw error;
				return { outcome: "aborted", exitCode: null, error: null };
			}
		},
		messages: async () => [],
		send: async () => {},
		answerPermission: async () => false,
		answerQuestion: async () => false,
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
