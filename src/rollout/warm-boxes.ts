import { createHash } from "node:crypto";
import type { BootedAgent } from "../agent/agent.ts";
import { whenAborted } from "../agent/stopped.ts";
import { isAbort, messageOf } from "../errors.ts";
import type { CommandResult } from "../model/event.ts";
import type { RolloutRequest } from "../model/request.ts";
import { HOME, WORKDIR } from "../model/task.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { inTime, unresponsiveBox } from "./clock.ts";
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

const SWEEP_EVERY_MS = 10_000;
/** How long freezing or thawing may take. */
const ANSWER_S = 10;

export interface WarmOptions extends ReadyDeps {
	/** Used when nothing on the shelves fits. */
	cold: ReadyBoxes;
	/** How many generic boxes to keep, and how many to make ahead for tasks. */
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

/** Boxes of one recipe, some of them still being made. */
interface Shelf {
	request: RolloutRequest;
	boxes: Promise<WarmBox | null>[];
}

/**
 * Pays the agent's boot ahead of time. A box is thawed and checked alive when it is taken, replaced in the background, and never
 * used for a second rollout.
 */
export class WarmBoxes implements ReadyBoxes, AsyncDisposable {
	readonly #options: WarmOptions;
	readonly #generic: Shelf;
	/** Primed boxes by recipe, no more than `size` in all. */
	readonly #primed = new Map<string, Shelf>();
	readonly #stop = new AbortController();
	readonly #sweeping: NodeJS.Timeout;

	constructor(options: WarmOptions) {
		this.#options = options;
		this.#generic = { request: options.generic, boxes: [] };
		this.#fill(this.#generic, options.size, false);
		this.#sweeping = setInterval(() => void this.#sweep(), SWEEP_EVERY_MS).unref();
	}

	async open(request: RolloutRequest, record: RolloutRecord, signal: AbortSignal): Promise<ReadyBox> {
		record.phase("create");
		const warm = await this.#takeFor(request, signal);
		void this.#restock(request);
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
		await Promise.all(this.#all());
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#stop.abort();
		clearInterval(this.#sweeping);
		await Promise.all(this.#all().map((box) => this.#discard(box)));
	}

	async #takeFor(request: RolloutRequest, signal: AbortSignal): Promise<WarmBox | null> {
		const primed = this.#primed.get(taskRecipe(request));
		const warm = primed ? await this.#take(primed, signal) : null;
		if (warm !== null) return warm;
		const fits = genericRecipe(request) === genericRecipe(this.#options.generic);
		return fits ? await this.#take(this.#generic, signal) : null;
	}

	/** A box that is still being made is nearer than a cold one, so it is waited for. */
	async #take(shelf: Shelf, signal: AbortSignal): Promise<WarmBox | null> {
		signal.throwIfAborted();
		using stop = whenAborted(signal);
		for (let next = shelf.boxes.shift(); next !== undefined; next = shelf.boxes.shift()) {
			const warm = await Promise.race([next, stop.fired]);
			if (warm === null) continue;
			if (warm !== "stopped" && !signal.aborted && (await isAlive(warm))) return warm;
			void this.#discard(next);
			signal.throwIfAborted();
		}
		return null;
	}

	async #restock(request: RolloutRequest): Promise<void> {
		const { size, warn, upcoming } = this.#options;
		try {
			const wanted = await upcoming(request);
			if (this.#stop.signal.aborted) return;
			this.#fill(this.#generic, size, false);
			if (wanted === 0) return;
			const recipe = taskRecipe(request);
			const shelf = this.#primed.get(recipe) ?? { request, boxes: [] };
			const elsewhere = [...this.#primed.values()].filter((other) => other !== shelf);
			const room = size - elsewhere.reduce((sum, { boxes }) => sum + boxes.length, 0);
			this.#primed.set(recipe, shelf);
			this.#fill(shelf, Math.min(wanted, room), true);
		} catch (error) {
			warn(`warm boxes could not be restocked: ${messageOf(error)}`);
		}
	}

	/** Rollouts that were aborted, or run elsewhere, leave boxes behind that nobody will come for. */
	async #sweep(): Promise<void> {
		for (const [recipe, shelf] of this.#primed) {
			const wanted = shelf.boxes.length === 0 ? 0 : await this.#wanted(shelf);
			for (const box of shelf.boxes.splice(wanted)) void this.#discard(box);
			if (shelf.boxes.length === 0) this.#primed.delete(recipe);
		}
	}

	/** When that cannot be told, all of them are. */
	async #wanted({ request }: Shelf): Promise<number> {
		try {
			return await this.#options.upcoming(request);
		} catch (error) {
			this.#options.warn(`warm boxes could not be counted: ${messageOf(error)}`);
			return Number.POSITIVE_INFINITY;
		}
	}

	#fill(shelf: Shelf, count: number, forTask: boolean): void {
		while (shelf.boxes.length < count) shelf.boxes.push(this.#make(shelf.request, forTask));
	}

	#all(): Promise<WarmBox | null>[] {
		return [this.#generic, ...this.#primed.values()].flatMap((shelf) => shelf.boxes);
	}

	async #discard(box: Promise<WarmBox | null>): Promise<void> {
		try {
			await (await box)?.[Symbol.asyncDispose]();
		} catch (error) {
			this.#options.warn(`a warm box could not be closed: ${messageOf(error)}`);
		}
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
	const box = stack.use(await openBox(options, request, signal, { isAhead: true }));
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
	await inTime(box.freeze(), { ms: ANSWER_S * 1000, late: () => unresponsiveBox("freezing it", ANSWER_S) });
	// Whatever is disposed of after this needs a box that can answer.
	stack.defer(() => box.thaw());
	const owned = stack.move();
	return { box, agent, key, given, setup, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function isAlive(warm: WarmBox): Promise<boolean> {
	try {
		const late = () => unresponsiveBox("thawing it", ANSWER_S);
		await inTime(warm.box.thaw(), { ms: ANSWER_S * 1000, late });
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
