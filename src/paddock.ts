import { hostname } from "node:os";
import type { AgentMessage } from "./agent/agent.ts";
import type { Config } from "./config.ts";
import { messageOf, UsageError } from "./errors.ts";
import { toResult } from "./export/result.ts";
import { listEndpoints, resolveEndpoint } from "./gateway/catalog.ts";
import type { GatewayLimits } from "./gateway/limits.ts";
import { openMachine } from "./machine.ts";
import type { ModelCall } from "./model/call.ts";
import type { Command } from "./model/command.ts";
import { toTimerMs } from "./model/duration.ts";
import type { RolloutEvent } from "./model/event.ts";
import { newId } from "./model/id.ts";
import type { RolloutRequest } from "./model/request.ts";
import type { RolloutResult } from "./model/result.ts";
import type { Batch, Group, Rollout, RolloutRow } from "./model/rollout.ts";
import { requirePolicy } from "./policy/names.ts";
import type { Queue, Worker, WorkerInfo } from "./queue/queue.ts";
import type { Availability } from "./sandbox/sandbox.ts";
import { follow } from "./store/follow.ts";
import type { NewRollout, Store } from "./store/store.ts";
import { readCalls } from "./store/trace/trace-log.ts";

/**
 * The verbs. Every door (command line, HTTP, MCP, OpenEnv) translates, calls one of these, and translates back.
 * Bad input throws UsageError; an unknown id gives null.
 */
export interface Paddock extends AsyncDisposable {
	readonly config: Config;
	readonly store: Store;
	readonly queue: Queue;

	/** Validated, stored and queued when it resolves. n > 1, or `group: true`, makes a group. */
	submit(
		request: RolloutRequest,
		options?: { n?: number; group?: boolean; idempotencyKey?: string },
	): Promise<{ rollouts: RolloutRow[]; group: Group | null }>;
	/** Tasks × endpoints × n, already multiplied out into requests; each request becomes one group of n. */
	submitBatch(
		requests: RolloutRequest[],
		options: { n: number; labels?: Record<string, string>; idempotencyKey?: string },
	): Promise<{ batch: Batch; rollouts: RolloutRow[] }>;

	/** Every event after `after`, live, until the end event or the signal. */
	follow(id: string, options?: { after?: number; signal?: AbortSignal }): AsyncIterable<RolloutEvent>;
	/** The rollout once it is done, or as it is when time is up. */
	wait(id: string, options: { timeoutMs: number; signal?: AbortSignal }): Promise<Rollout | null>;
	/** The wire result; for an unfinished rollout the same shape with `error` saying so. */
	result(id: string): Promise<RolloutResult | null>;
	messages(
		id: string,
	): Promise<{ sessionId: string | null; messages: AgentMessage[]; note: string | null } | null>;
	calls(id: string): AsyncIterable<ModelCall>;
	abort(target: { id: string } | { groupId: string } | { batchId: string }): Promise<string[]>;
	command(id: string, command: Command): Promise<boolean>;

	/** Starts taking work on this machine. */
	work(options?: { capacity?: number }): Promise<Worker>;
	workers(): Promise<WorkerInfo[]>;
	/** What the catalog knows, never a key. */
	endpoints(): {
		name: string;
		configured: boolean;
		baseUrl: string | null;
		model: string | null;
		note: string;
	}[];
	sandboxes(): Promise<Record<string, Availability>>;
}

export interface PaddockOptions {
	/** What a person should read: a box without isolation, a lost heartbeat. */
	warn?: (message: string) => void;
	/** Bounds of the gateway other than the defaults. */
	gatewayLimits?: Partial<GatewayLimits>;
	/** Hands back the store that all work is done on: metrics and spans listen there. */
	watchStore?: (store: Store) => Store;
	/** How many boxes of dead owners had to be destroyed. */
	onReaped?: (boxes: number) => void;
	/** Whether a worker here also takes what a dead process left unfinished. True unless said otherwise. */
	adopt?: boolean;
}

/** The composition root: a Config becomes one object with the verbs. Nothing that runs agents is started before `work`. */
export async function openPaddock(config: Config, options: PaddockOptions = {}): Promise<Paddock> {
	const warn = options.warn ?? (() => {});
	await using stack = new AsyncDisposableStack();
	const { store, queue } = await openBackend(config, options, stack);
	const machine = stack.use(
		openMachine({
			config,
			store,
			warn,
			gatewayLimits: options.gatewayLimits ?? {},
			onReaped: options.onReaped ?? (() => {}),
		}),
	);

	async function enqueue(rollouts: RolloutRow[]): Promise<void> {
		const unfinished = rollouts.filter((rollout) => rollout.status !== "done");
		await queue.enqueue(unfinished.map(({ id, priority }) => ({ rolloutId: id, priority })));
	}

	const owned = stack.move();
	return {
		config,
		store,
		queue,
		async submit(request, { n = 1, group = n > 1, idempotencyKey } = {}) {
			check(request, config);
			const groups = group ? [newGroup(request, n, null)] : [];
			const made = await store.submit({
				rollouts: repeat(request, n, groups[0]?.id),
				groups,
				...(idempotencyKey === undefined ? {} : { idempotencyKey }),
			});
			await enqueue(made.rollouts);
			return { rollouts: made.rollouts, group: made.group };
		},
		async submitBatch(requests, { n, labels = {}, idempotencyKey }) {
			if (requests.length === 0) throw new UsageError("a batch needs at least one task", "empty_batch");
			for (const request of requests) check(request, config);
			const batch: Batch = { id: newId("ba"), size: requests.length * n, createdAt: Date.now(), labels };
			const groups = requests.map((request) => newGroup(request, n, batch.id));
			const made = await store.submit({
				rollouts: requests.flatMap((request, index) => repeat(request, n, groups[index]!.id, batch.id)),
				groups,
				batch,
				...(idempotencyKey === undefined ? {} : { idempotencyKey }),
			});
			await enqueue(made.rollouts);
			return { batch: made.batch!, rollouts: made.rollouts };
		},
		follow: (id, followOptions) => follow(store, id, followOptions),
		async wait(id, { timeoutMs, signal }) {
			const clock = AbortSignal.timeout(toTimerMs(timeoutMs));
			const until = signal ? AbortSignal.any([signal, clock]) : clock;
			for await (const event of follow(store, id, { signal: until })) if (event.type === "rollout-end") break;
			return await store.get(id);
		},
		async result(id) {
			const rollout = await store.get(id);
			if (rollout === null) return null;
			return await toResult(rollout, callsOf(store, rollout), (name) => store.getBlob(id, name));
		},
		async messages(id) {
			const rollout = await store.get(id);
			return rollout === null ? null : await storedMessages(store, rollout);
		},
		async *calls(id) {
			const rollout = await store.row(id);
			if (rollout !== null) yield* callsOf(store, rollout);
		},
		async abort(target) {
			const hit = (await store.requestAbort(target)).map(({ id }) => id);
			await queue.cancel(hit);
			return hit;
		},
		command: (id, command) => store.post(id, command),
		async work({ capacity = config.concurrency } = {}) {
			const workerId = `${hostname()}-${process.pid}`;
			const handle = await machine.start(workerId);
			// Closed without being drained, it still hands its rollouts back before their boxes and the gateway go.
			return owned.use(await queue.work({ workerId, capacity, handle }));
		},
		workers: () => queue.workers(),
		endpoints: () => listEndpoints(config.env),
		sandboxes: () => machine.backends.availabilities(),
		[Symbol.asyncDispose]: () => owned.disposeAsync(),
	};
}

async function openBackend(
	config: Config,
	options: PaddockOptions,
	stack: AsyncDisposableStack,
): Promise<{ store: Store; queue: Queue }> {
	const { databaseUrl: url, home, env } = config;
	const { watchStore = (bare: Store) => bare, adopt = true, warn } = options;
	const onError = (error: unknown, rolloutId: string | null) =>
		warn?.(`queue${rolloutId === null ? "" : `, ${rolloutId}`}: ${messageOf(error)}`);
	if (url === null) {
		const { openSqliteStore } = await import("./store/sqlite/sqlite.ts");
		const { openEmbeddedQueue } = await import("./queue/embedded/embedded.ts");
		const store = watchStore(stack.use(await openSqliteStore({ home })));
		return { store, queue: stack.use(await openEmbeddedQueue({ store, home, adopt, onError })) };
	}
	const { openPostgresStore } = await import("./store/postgres/postgres.ts");
	const { openBossQueue } = await import("./queue/boss/boss.ts");
	const store = watchStore(stack.use(await openPostgresStore({ url, home, env })));
	return { store, queue: stack.use(await openBossQueue({ url, store, onError })) };
}

/** Says no before anything is stored, in one sentence. */
function check(request: RolloutRequest, config: Config): void {
	const { endpoint } = request;
	if (request.sandbox === "process" && config.sandbox !== "process") {
		const message =
			"a sandbox without isolation has to be allowed where it runs: set PADDOCK_SANDBOX=process there";
		throw new UsageError(message, "sandbox_refused");
	}
	if (endpoint.type !== "policy") {
		resolveEndpoint(endpoint, config.env);
		return;
	}
	requirePolicy(endpoint.policy);
	if ((endpoint.policy === "replay") !== (endpoint.trace !== undefined)) {
		throw new UsageError(
			"the policy replay, and only it, needs the id of the rollout to play back",
			"bad_policy",
		);
	}
}

function newGroup(request: RolloutRequest, n: number, batchId: string | null): Group {
	return { id: newId("gr"), taskId: request.task.id, batchId, n, createdAt: Date.now() };
}

function repeat(request: RolloutRequest, n: number, groupId?: string, batchId?: string): NewRollout[] {
	return Array.from({ length: n }, () => ({
		id: newId("ro"),
		request,
		...(groupId === undefined ? {} : { groupId }),
		...(batchId === undefined ? {} : { batchId }),
	}));
}

function callsOf(store: Store, rollout: Pick<Rollout, "id" | "attempt">): AsyncIterable<ModelCall> {
	return readCalls(() => store.readTrace(rollout.id, rollout.attempt));
}

async function storedMessages(store: Store, rollout: Rollout) {
	const stored = await store.getBlob(rollout.id, "transcript.json");
	const messages = stored === null ? [] : (JSON.parse(stored.toString("utf8")) as AgentMessage[]);
	const sessionId = rollout.summary?.sessionId ?? sessionOf(messages);
	const note =
		messages.length > 0 ? null : `no messages yet: the rollout is ${rollout.status} (${rollout.phase})`;
	return { sessionId, messages, note };
}

function sessionOf(messages: AgentMessage[]): string | null {
	const id = messages[0]?.info.sessionID;
	return typeof id === "string" ? id : null;
}
