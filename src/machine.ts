import { availableParallelism } from "node:os";
import type { KeptAgents } from "./agent/keeper/reached.ts";
import { opencode } from "./agent/opencode.ts";
import { Backends } from "./backends.ts";
import type { Config } from "./config.ts";
import type { HeldCredential } from "./credential/hold.ts";
import type { Refresher } from "./credential/refresher/refresher.ts";
import type { ProbeEnd } from "./credential/verify.ts";
import { messageOf } from "./errors.ts";
import { openGateway } from "./gateway/agent-side/server.ts";
import type { GatewayLimits } from "./gateway/limits.ts";
import type { GatewayLog } from "./gateway/log.ts";
import { Reach } from "./gateway/upstream/reach.ts";
import type { ServedWeights } from "./gateway/weights.ts";
import type { Live } from "./live/live.ts";
import { RolloutRequest } from "./model/request.ts";
import { openPolicyServer } from "./policy/server.ts";
import type { Job, JobEnd } from "./queue/queue.ts";
import { ColdBoxes } from "./rollout/boxes/cold-boxes.ts";
import type { ReadyBoxes, ReadyDeps } from "./rollout/boxes/ready-box.ts";
import { WarmBoxes } from "./rollout/boxes/warm-boxes.ts";
import { coalesce } from "./rollout/coalesce.ts";
import { handle } from "./rollout/handle.ts";
import { probeLogin } from "./rollout/login/probe-login.ts";
import { Turnstile, Turnstiles } from "./rollout/turnstile.ts";
import { patient } from "./store/patience.ts";
import type { Store } from "./store/store.ts";
import { verify } from "./verify/verifier.ts";

const REAP_EVERY_MS = 60_000;

export interface MachineOptions {
	config: Config;
	store: Store;
	live: Live;
	warn: (message: string) => void;
	gatewayLimits: Partial<GatewayLimits>;
	weights: ServedWeights;
	onReaped: (boxes: number) => void;
	refresher: Refresher;
	kept: KeptAgents;
}

/** What runs agents on this machine: sandboxes, gateway, scripted models. Started by the first worker. */
export interface Machine extends AsyncDisposable {
	readonly backends: Backends;
	/** Has the agent itself ask a model, with a login that only it can speak for. */
	probeLogin(held: HeldCredential, signal: AbortSignal): Promise<ProbeEnd>;
	/** Cleans up after dead owners, then says how to handle a job. */
	start(workerId: string): Promise<(job: Job) => Promise<JobEnd>>;
}

export function openMachine(options: MachineOptions): Machine {
	const { config, store, warn } = options;
	const stack = new AsyncDisposableStack();
	const backends = stack.use(new Backends(config, warn, config.boxCeiling));
	const backend = (name: string) => backends.get(name);
	const reap = async () => options.onReaped(await backends.reap());

	return {
		backends,
		probeLogin: (held, signal) =>
			probeLogin(
				{
					credentials: store.credentials,
					backend: () => backend(config.sandbox === "docker" ? "docker" : "local"),
					warn,
				},
				held,
				signal,
			),
		async start(workerId) {
			await backend(config.sandbox);
			await reap();
			// One at a time: an engine that hangs would otherwise be asked again and again.
			const reapOnce = coalesce(reap, (error) => warn(`could not clean up: ${messageOf(error)}`));
			const reaping = setInterval(reapOnce, REAP_EVERY_MS).unref();
			stack.defer(() => clearInterval(reaping));
			const gateway = stack.use(
				await openGateway({
					limits: options.gatewayLimits,
					log: toGatewayLog(warn),
					weights: options.weights,
				}),
			);
			const policies = stack.use(await openPolicyServer());
			const starts = new Turnstile(availableParallelism());
			const boxes = openBoxes(
				{ gateway, agent: opencode, backend, starts, folders: config.folders },
				options,
				stack,
			);
			const deps = {
				store: patient(store),
				live: options.live,
				gateway,
				agent: opencode,
				policies,
				refresher: options.refresher,
				boxes,
				reach: new Reach(),
				kept: options.kept,
				endpointSlots: new Turnstiles(config.maxPerEndpoint ?? Number.POSITIVE_INFINITY),
				turnSlots: new Turnstiles(config.maxPerEndpoint ?? Number.POSITIVE_INFINITY),
				maxTraceBytes: config.maxTraceMb * 1024 * 1024,
				verify,
				backend,
				env: config.env,
				warn,
			};
			return (job) => handle(job, deps, workerId);
		},
		[Symbol.asyncDispose]: () => stack.disposeAsync(),
	};
}

/** Refusals and broken connections are worth a line; who was refused is in no line, since a box could fill them. */
function toGatewayLog(warn: (message: string) => void): GatewayLog {
	const say = (_details: object, message: string) => warn(`gateway: ${message}`);
	return { info: () => {}, warn: say, error: say };
}

function openBoxes(
	deps: ReadyDeps,
	{ config, store, warn }: MachineOptions,
	stack: AsyncDisposableStack,
): ReadyBoxes {
	const cold = new ColdBoxes(deps);
	if (config.pool === 0) return cold;
	const generic = RolloutRequest.parse({
		task: { id: "warm", instruction: "-" },
		endpoint: { type: "policy", policy: "noop" },
		sandbox: config.sandbox,
	});
	const upcoming = async (request: RolloutRequest) => {
		const waiting = await store.list({ status: "queued", taskId: request.task.id }, { limit: config.pool });
		return waiting.items.length;
	};
	return stack.use(new WarmBoxes({ ...deps, cold, size: config.pool, generic, upcoming, warn }));
}
