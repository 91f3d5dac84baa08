import { Backends } from "../../backends.ts";
import type { Config } from "../../config.ts";
import { UsageError } from "../../errors.ts";
import type { RolloutEvent } from "../../model/event.ts";
import type { RolloutRequest } from "../../model/request.ts";
import type { RolloutResult } from "../../model/result.ts";
import { openHere } from "../open-here.ts";

/** A rollout that was accepted. */
export interface Submitted {
	id: string;
	taskId: string;
	/** Its place among the rollouts of its task, from 0. */
	index: number;
	groupId: string | null;
}

/** Where rollouts run: in this process, or on a server. */
export interface Workplace extends AsyncDisposable {
	/** Rollouts that a process left unfinished which is no more. */
	readonly leftOver: number;
	/** `n` rollouts of each, told one by one as they are accepted. Once `stop` has fired, nothing more is submitted. */
	submit(requests: readonly RolloutRequest[], n: number, stop?: AbortSignal): AsyncIterable<Submitted>;
	/** Starts working on what was submitted. */
	start(): Promise<void>;
	follow(id: string): AsyncIterable<RolloutEvent>;
	result(id: string): Promise<RolloutResult | null>;
	abort(id: string): Promise<unknown>;
	/** Names and contents of what was kept of a rollout besides its result. */
	files(id: string): AsyncIterable<{ name: string; data: Uint8Array }>;
}

/** The embedded store, and a worker in this very process. */
export async function openLocalWorkplace(
	config: Config,
	warn: (message: string) => void,
): Promise<Workplace> {
	// Before the store is opened: a refused run leaves no data folder behind.
	await requireSandbox(config);
	await using stack = new AsyncDisposableStack();
	// Whoever types here asks for themselves: there is no queue to protect, and no stranger to refuse.
	const own = { ...config, queueLimit: Number.POSITIVE_INFINITY, token: null };
	const paddock = stack.use(await openHere(own, warn, { adopt: false }));
	const { length: leftOver } = await paddock.leftBehind();
	const owned = stack.move();
	return {
		leftOver,
		async *submit(requests, n, stop) {
			for (const request of requests) {
				stop?.throwIfAborted();
				const { rollouts } = await paddock.submit(request, { n });
				yield* rollouts.map(({ id, groupId }, index) => ({ id, taskId: request.task.id, index, groupId }));
			}
		},
		async start() {
			owned.use(await paddock.work({ capacity: config.concurrency, conversations: 0 }));
		},
		follow: (id) => paddock.follow(id),
		result: (id) => paddock.result(id),
		abort: (id) => paddock.abort({ id }),
		async *files(id) {
			for (const name of await paddock.blobs(id)) {
				const data = await paddock.blob(id, name);
				if (data !== null) yield { name, data };
			}
		},
		[Symbol.asyncDispose]: () => owned.disposeAsync(),
	};
}

async function requireSandbox(config: Config): Promise<void> {
	const { sandbox: backend } = config;
	await using backends = new Backends(config, () => {});
	const { ok, checks } = await backends.availability(backend);
	if (ok) return;
	const broken = checks.find((check) => !check.ok);
	const why = broken === undefined ? "" : `: ${broken.detail}`;
	const fix = broken?.fix === undefined ? `see "paddock doctor"` : broken.fix;
	throw new UsageError(
		`The sandbox "${backend}" is not available here${why} (${fix}).`,
		"sandbox_unavailable",
	);
}
