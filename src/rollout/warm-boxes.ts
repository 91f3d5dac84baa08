import { createHash } from "node:crypto";
import type { BootedAgent } from "../agent/agent.ts";
import { isAbort, messageOf } from "../errors.ts";
import type { CommandResult } from "../model/event.ts";
import type { RolloutRequest } from "../model/request.ts";
import { HOME, WORKDIR } from "../model/task.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import {
	bootAgent,
	newKey,
	openBox,
	prepare,
	type ReadyBox,
	type ReadyBoxes,
	type ReadyDeps,
} from "./ready-box.ts";
import type { RolloutRecord } from "./record.ts";
import type { Snapshot } from "./snapshot.ts";

export interface WarmOptions extends ReadyDeps {
	/** Used when nothing on the shelves fits. */
	cold: ReadyBoxes;
	/** How many generic boxes to keep, and how many to make ahead for one task. */
	size: number;
	/** What a generic box is made for: the default backend, box and agent options. */
	generic: RolloutRequest;
	/** How many more rollouts of this task are waiting for a box. */
	upcoming(request: RolloutRequest): Promise<number>;
	warn(message: string): void;
}

/** A booted agent in a frozen box. With `given`, the task is in it, set up, and the agent is primed for it. */
interface WarmBox extends AsyncDisposable {
	box: Sandbox;
	agent: BootedAgent;
	key: string;
	given: Snapshot | null;
	setup: CommandResult[];
}

/**
 * Pays the agent's boot ahead of time. A box is thawed and checked alive when it is taken, replaced in the background, and never
 * used for a second rollout.
 */
export class WarmBoxes implements ReadyBoxes, AsyncDisposable {
	readonly #options: WarmOptions;
	readonly #shelves = new Map<string, Promise<WarmBox | null>[]>();
	readonly #stop = new AbortController();

	constructor(options: WarmOptions) {
		this.#options = options;
		this.#fill(genericRecipe(options.generic), options.size, () => this.#make(options.generic, false));
	}

	async open(request: RolloutRequest, record: RolloutRecord, signal: AbortSignal): Promise<ReadyBox> {
		const exact = taskRecipe(request);
		const general = genericRecipe(request);
		record.phase("create");
		const warm = (await this.#take(exact)) ?? (await this.#take(general));
		void this.#restock(request, exact);
		if (warm === null) return await this.#options.cold.open(request, record, signal);
		try {
			return await finish(warm, request, record, signal);
		} catch (error) {
			await warm[Symbol.asyncDispose]();
			throw error;
		}
	}

	/** Resolves when every box that is being made is on its shelf. */
	async settled(): Promise<void> {
		await Promise.all([...this.#shelves.values()].flat());
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#stop.abort();
		const boxes = await Promise.all([...this.#shelves.values()].flat());
		await Promise.all(boxes.map((warm) => warm?.[Symbol.asyncDispose]()));
	}

	/** A box that is still being made is nearer than a cold one, so it is waited for. */
	async #take(recipe: string): Promise<WarmBox | null> {
		const shelf = this.#shelves.get(recipe);
		for (let next = shelf?.shift(); next !== undefined; next = shelf?.shift()) {
			const warm = await next;
			if (warm === null) continue;
			if (await isAlive(warm)) return warm;
			await warm[Symbol.asyncDispose]();
		}
		return null;
	}

	async #restock(request: RolloutRequest, exact: string): Promise<void> {
		const { generic, size, warn } = this.#options;
		try {
			const wanted = Math.min(size, await this.#options.upcoming(request));
			if (this.#stop.signal.aborted) return;
			this.#fill(exact, wanted, () => this.#make(request, true));
			this.#fill(genericRecipe(generic), size, () => this.#make(generic, false));
		} catch (error) {
			warn(`warm boxes could not be restocked: ${messageOf(error)}`);
		}
	}

	#fill(recipe: string, count: number, make: () => Promise<WarmBox | null>): void {
		const shelf = this.#shelves.get(recipe) ?? [];
		while (shelf.length < count) shelf.push(make());
		if (shelf.length > 0) this.#shelves.set(recipe, shelf);
		else this.#shelves.delete(recipe);
	}

	async #make(request: RolloutRequest, forTask: boolean): Promise<WarmBox | null> {
		try {
			return await makeWarm(this.#options, request, forTask, this.#stop.signal);
		} catch (error) {
			// The rollout that would have used it opens a cold box and reports what is really wrong.
			if (!isAbort(error)) this.#options.warn(`a warm box could not be made: ${messageOf(error)}`);
			return null;
		}
	}
}

async function makeWarm(
	options: WarmOptions,
	request: RolloutRequest,
	forTask: boolean,
	signal: AbortSignal,
): Promise<WarmBox> {
	await using stack = new AsyncDisposableStack();
	const box = stack.use(await openBox(options, request, signal));
	const setup: CommandResult[] = [];
	const given = forTask
		? stack.use(await prepare(request.task, box, (result) => setup.push(result), signal))
		: null;
	const key = newKey();
	const agent = stack.use(await bootAgent(options, box, request, key, signal));
	if (forTask) {
		// Only with the workdir in place: the agent remembers what it saw of a directory.
		using _priming = options.gateway.prime(box.id, key);
		await agent.prime(WORKDIR.replace(HOME, box.home));
	}
	await box.freeze();
	// Whatever is disposed of after this needs a box that can answer.
	stack.defer(() => box.thaw());
	const owned = stack.move();
	return { box, agent, key, given, setup, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function isAlive(warm: WarmBox): Promise<boolean> {
	try {
		await warm.box.thaw();
		return (await warm.box.exec(["true"], { timeoutMs: 2_000 })).exitCode === 0;
	} catch {
		return false;
	}
}

/** The rest of the way, for a generic box; for a primed one only the telling of it. */
async function finish(
	warm: WarmBox,
	request: RolloutRequest,
	record: RolloutRecord,
	signal: AbortSignal,
): Promise<ReadyBox> {
	const { box, agent, key } = warm;
	record.opened(box.id, box.backend, true, { ...box.facts, primed: warm.given !== null });
	record.phase("setup");
	for (const result of warm.setup) record.setUp(result);
	const given = warm.given ?? (await prepare(request.task, box, (result) => record.setUp(result), signal));
	return {
		box,
		agent,
		key,
		given,
		async [Symbol.asyncDispose]() {
			if (warm.given === null) await given[Symbol.asyncDispose]();
			await warm[Symbol.asyncDispose]();
		},
	};
}

function genericRecipe(request: RolloutRequest): string {
	return digest([request.sandbox, request.task.box, request.agent]);
}

function taskRecipe(request: RolloutRequest): string {
	const { instruction, files, setup } = request.task;
	return digest([genericRecipe(request), instruction, files, setup]);
}

function digest(value: unknown): string {
	return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}
