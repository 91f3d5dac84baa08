import { hostname } from "node:os";
import type { Config } from "./config.ts";
import { openRefresher } from "./credential/refresher/refresher.ts";
import { verifyRegularly } from "./credential/regularly.ts";
import { verifyCredential } from "./credential/verify.ts";
import { messageOf } from "./errors.ts";
import { listEndpoints } from "./gateway/catalog.ts";
import { challenge } from "./gateway/engines/challenge.ts";
import type { GatewayLimits } from "./gateway/limits.ts";
import { ServedWeights } from "./gateway/weights.ts";
import { Hosts } from "./host/hosts.ts";
import { AgentHost } from "./kept/host.ts";
import type { Live } from "./live/live.ts";
import { LocalLive } from "./live/local.ts";
import { openMachine } from "./machine.ts";
import type { RolloutEvent } from "./model/event.ts";
import type { Queue } from "./queue/queue.ts";
import type { StorePlace } from "./store/place.ts";
import type { Store } from "./store/store.ts";
import { loadExamples } from "./task/examples.ts";
import { Admission } from "./verbs/admission.ts";
import { conversing } from "./verbs/converse.ts";
import { keeping } from "./verbs/credentials.ts";
import { placing } from "./verbs/hosts.ts";
import { reading } from "./verbs/read.ts";
import { steering } from "./verbs/steer.ts";
import { submitting } from "./verbs/submit.ts";
import { tracing } from "./verbs/trace.ts";
import type { AgentKeeping, Paddock } from "./verbs/verbs.ts";

export type { Paddock } from "./verbs/verbs.ts";

export interface PaddockOptions {
	/** What a person should read: a box without isolation, a lost heartbeat. */
	warn?: ((message: string) => void) | undefined;
	/** Bounds of the gateway other than the defaults. */
	gatewayLimits?: Partial<GatewayLimits> | undefined;
	/** Hears every event that this process commits, once it is durable: metrics and spans listen here. */
	onCommit?: ((event: RolloutEvent) => void) | undefined;
	/** How many boxes of dead owners had to be destroyed. */
	onReaped?: ((boxes: number) => void) | undefined;
	/** Whether a worker here also takes what a dead process left unfinished. True unless said otherwise. */
	adopt?: boolean | undefined;
	/** What runs agents on this machine; something else only where no agent shall run. */
	openMachine?: typeof openMachine | undefined;
}

/** The composition root: a Config becomes one object with the verbs. Nothing that runs agents is started before `work`. */
export async function openPaddock(config: Config, options: PaddockOptions = {}): Promise<Paddock> {
	const { warn = () => {}, gatewayLimits = {}, onReaped = () => {} } = options;
	await using stack = new AsyncDisposableStack();
	const { store, queue, live } = await openBackend(config, options, stack);
	if (options.onCommit) store.onCommit(options.onCommit);
	const open = options.openMachine ?? openMachine;
	const weights = new ServedWeights();
	const refresher = stack.use(openRefresher(placeOf(config)));
	const kept = stack.use(new AgentHost({ store, home: config.home, env: config.env, warn }));
	const machine = stack.use(
		open({ config, store, live, warn, gatewayLimits, weights, onReaped, refresher, kept }),
	);
	const { credentials } = store;
	const verify = (label: string) =>
		verifyCredential({ credentials, refresher, probe: challenge, probeLogin: machine.probeLogin }, label);
	const admission = new Admission(
		{ depth: () => queue.depth(), isSubmitted: (key) => store.isSubmitted(key) },
		config.queueLimit,
	);
	const read = reading(store, queue, config.queueLimit);
	const owned = stack.move();
	return {
		config,
		...submitting(config, store, queue, admission),
		...conversing(config, store, live, queue, admission),
		...read,
		...tracing(store, live, read),
		...steering(config, store, queue),
		...keeping(store, verify),
		...placing(new Hosts(config.home)),
		...keepingAgents(kept),
		async work({ capacity = config.concurrency, conversations = config.conversations } = {}) {
			const workerId = `${hostname()}-${process.pid}`;
			const handle = await machine.start(workerId);
			if (config.verifyHours !== null)
				owned.use(verifyRegularly(store.credentials, verify, { hours: config.verifyHours, warn }));
			// Closed without being drained, it still hands its rollouts back before their boxes and the gateway go.
			return owned.use(await queue.work({ workerId, capacity, conversations, handle }));
		},
		workers: () => queue.workers(),
		endpoints: () => listEndpoints(config.env),
		setWeights: (endpoint, version) => weights.set(endpoint, version),
		examples: () => loadExamples(),
		sandboxes: () => machine.backends.availabilities(),
		[Symbol.asyncDispose]: () => owned.disposeAsync(),
	};
}

function placeOf({ databaseUrl: url, home, masterKeyFile }: Config): StorePlace {
	const place = { home, ...(masterKeyFile === null ? {} : { keyFile: masterKeyFile }) };
	return url === null ? { type: "sqlite", ...place } : { type: "postgres", url, ...place };
}

function keepingAgents(host: AgentHost): AgentKeeping {
	return {
		agents: () => host.list(),
		agent: (name) => host.find(name),
		addAgent: (agent) => host.add(agent),
		changeAgent: (name, change) => host.change(name, change),
		async startAgent(name) {
			const { baseUrl, ended } = await host.start(name);
			return { baseUrl: baseUrl ?? "", ended };
		},
		stopAgent: (name) => host.stop(name),
		removeAgent: (name) => host.remove(name),
		agentLog: (name) => host.log(name),
		resumeAgents: () => host.resume(),
		agentAccess: (name) => host.access(name),
	};
}

async function openBackend(
	config: Config,
	options: PaddockOptions,
	stack: AsyncDisposableStack,
): Promise<{ store: Store; queue: Queue; live: Live }> {
	const { databaseUrl: url, home, env } = config;
	const keyFile = config.masterKeyFile ?? undefined;
	const { adopt = true, warn } = options;
	const onError = (error: unknown, rolloutId: string | null) =>
		warn?.(`queue${rolloutId === null ? "" : `, ${rolloutId}`}: ${messageOf(error)}`);
	if (url === null) {
		const { openSqliteStore } = await import("./store/sqlite/sqlite.ts");
		const { openEmbeddedQueue } = await import("./queue/embedded/embedded.ts");
		const store = stack.use(await openSqliteStore({ home, keyFile }));
		const queue = stack.use(await openEmbeddedQueue({ store, home, adopt, onError }));
		return { store, queue, live: new LocalLive() };
	}
	const { openPostgresStore } = await import("./store/postgres/postgres.ts");
	const { openBossQueue } = await import("./queue/boss/boss.ts");
	const store = stack.use(await openPostgresStore({ url, home, env, keyFile }));
	const { PostgresLive } = await import("./live/postgres.ts");
	const live = stack.use(new PostgresLive({ url, schema: "paddock" }));
	return { store, live, queue: stack.use(await openBossQueue({ url, store, onError })) };
}
