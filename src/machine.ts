import { availableParallelism } from "node:os";
import { opencode } from "./agent/opencode.ts";
import type { Config } from "./config.ts";
import { messageOf, UsageError } from "./errors.ts";
import { openGateway } from "./gateway/server.ts";
import { SandboxBackend } from "./model/request.ts";
import { openPolicyServer } from "./policy/server.ts";
import type { Job, JobEnd } from "./queue/queue.ts";
import { handle } from "./rollout/handle.ts";
import { ColdBoxes } from "./rollout/ready-box.ts";
import { Turnstile } from "./rollout/turnstile.ts";
import { openLocalProvider } from "./sandbox/local.ts";
import { openProcessProvider } from "./sandbox/process.ts";
import type { SandboxProvider } from "./sandbox/sandbox.ts";
import type { Store } from "./store/store.ts";
import { verify } from "./verify/clean-box.ts";

const REAP_EVERY_MS = 60_000;

/** What runs agents on this machine: sandboxes, gateway, scripted models. Started by the first worker. */
export interface Machine extends AsyncDisposable {
	readonly backends: readonly string[];
	provider(backend: string): SandboxProvider;
	/** Cleans up after dead owners, then says how to handle a job. */
	start(workerId: string): Promise<(job: Job) => Promise<JobEnd>>;
}

export function openMachine(options: {
	config: Config;
	store: Store;
	warn: (message: string) => void;
}): Machine {
	const { config, store, warn } = options;
	const stack = new AsyncDisposableStack();
	const providers = new Map<string, SandboxProvider>();

	function provider(backend: string): SandboxProvider {
		const known = providers.get(backend);
		if (known) return known;
		const opened = stack.use(openProvider(backend, config, warn));
		providers.set(backend, opened);
		return opened;
	}

	async function reap(): Promise<void> {
		for (const each of providers.values()) {
			await each
				.reap()
				.catch((error) => warn(`could not clean up old ${each.name} boxes: ${messageOf(error)}`));
		}
	}

	return {
		backends: SandboxBackend.options,
		provider,
		async start(workerId) {
			const gateway = stack.use(await openGateway());
			const policies = stack.use(await openPolicyServer());
			const starts = new Turnstile(availableParallelism());
			const boxes = new ColdBoxes({ gateway, agent: opencode, provider, starts });
			const deps = {
				store,
				gateway,
				agent: opencode,
				policies,
				boxes,
				verify,
				provider,
				env: config.env,
				warn,
			};
			provider(config.sandbox);
			await reap();
			const reaping = setInterval(() => void reap(), REAP_EVERY_MS).unref();
			stack.defer(() => clearInterval(reaping));
			return (job) => handle(job, deps, workerId);
		},
		[Symbol.asyncDispose]: () => stack.disposeAsync(),
	};
}

function openProvider(backend: string, config: Config, warn: (message: string) => void): SandboxProvider {
	switch (SandboxBackend.safeParse(backend).data) {
		case "local":
			return openLocalProvider({ home: config.home });
		case "process":
			return openProcessProvider({ home: config.home, warn });
		default:
			throw new UsageError(`the sandbox ${JSON.stringify(backend)} is not available here`, "unknown_sandbox");
	}
}
