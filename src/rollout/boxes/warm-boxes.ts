import { createHash } from "node:crypto";
import { availableParallelism } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { BootedAgent } from "../../agent/agent.ts";
import { whenAborted } from "../../agent/stopped.ts";
import { messageOf } from "../../errors.ts";
import type { SetupEvent } from "../../model/event.ts";
import type { RolloutRequest, StoredRequest } from "../../model/request.ts";
import { WORKDIR } from "../../model/task.ts";
import { pathIn, type Sandbox } from "../../sandbox/sandbox.ts";
import { inTime, unresponsiveBox } from "../clock.ts";
import type { PlantedLogin } from "../login/planted.ts";
import type { RolloutRecord } from "../record.ts";
import {
	bootAgent,
	newKey,
	openBox,
	prepare,
	type ReadyBox,
	type ReadyBoxes,
	type ReadyDeps,
} from "./ready-box.ts";
import type { Snapshot } from "./snapshot.ts";

/** For so long after a rollout has begun no box is made … */
const QUIET_MS = 1_000;
/** … unless they begin so often that none ever would be. */
const LONGEST_QUIET_MS = 5_000;
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

/** A booted and primed agent in a frozen box. With `given`, the task is in it, set up, and the agent is primed for it. */
interface WarmBox extends AsyncDisposable {
	box: Sandbox;
	agent: BootedAgent;
	key: string;
	given: Snapshot | null;
	setup: SetupEvent[];
}

/** Boxes of one recipe, some of them still being made. */
interface Shelf {
	request: RolloutRequest;
	forTask: boolean;
	/** How many there should be. */
	wanted: number;
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
	readonly #lanes = Math.max(1, Math.floor(availableParallelism() / 2));
	#making = 0;
	/** Since when boxes that are wanted have not been begun, and until when they will not be. */
	#quiet: { since: number; until: number } | null = null;

	constructor(options: WarmOptions) {
		this.#options = options;
		this.#generic = { request: options.generic, forTask: false, wanted: options.size, boxes: [] };
		this.#sweeping = setInterval(() => void this.#sweep(), SWEEP_EVERY_MS).unref();
		this.#makeMore();
	}

	async open(
		request: StoredRequest,
		record: RolloutRecord,
		signal: AbortSignal,
		planted?: PlantedLogin | undefined,
	): Promise<ReadyBox> {
		// Nobody makes a box ahead in somebody's own folder, or with somebody's login in it.
		if (request.conversation?.folder !== undefined || planted !== undefined)
			return await this.#options.cold.open(request, record, signal, planted);
		record.phase("create");
		this.#hush();
		// Before it takes its own, so that the next box to be made is one for its siblings.
		void this.#order(request);
		const warm = await this.#takeFor(request, signal);
		this.#hush();
		if (warm === null) return await this.#options.cold.open(request, record, signal);
		try {
			return await finish(warm, request, record, signal);
		} catch (error) {
			await warm[Symbol.asyncDispose]();
			throw error;
		}
	}

	/** Resolves when no box is missing from a shelf. */
	async settled(): Promise<void> {
		while (this.#making > 0 || this.#shortest() !== undefined) await delay(20);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#stop.abort();
		clearInterval(this.#sweeping);
		const shelves = [this.#generic, ...this.#primed.values()];
		await Promise.all(shelves.flatMap(({ boxes }) => boxes.map((box) => this.#discard(box))));
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
			this.#hush();
			if (warm !== "stopped" && !signal.aborted && (await isAlive(warm))) return warm;
			void this.#discard(next);
			signal.throwIfAborted();
		}
		return null;
	}

	/** Wants a box for each rollout of this task that is still to come, as far as there is room. */
	async #order(request: RolloutRequest): Promise<void> {
		try {
			const upcoming = await this.#options.upcoming(request);
			const recipe = taskRecipe(request);
			const shelf = this.#primed.get(recipe) ?? { request, forTask: true, wanted: 0, boxes: [] };
			const elsewhere = [...this.#primed.values()].filter((other) => other !== shelf);
			const taken = elsewhere.reduce((sum, { boxes, wanted }) => sum + Math.max(boxes.length, wanted), 0);
			const room = Math.max(0, this.#options.size - taken);
			shelf.wanted = Math.min(upcoming, room);
			if (shelf.wanted > 0) this.#primed.set(recipe, shelf);
		} catch (error) {
			this.#options.warn(`warm boxes could not be ordered: ${messageOf(error)}`);
		}
		this.#makeMore();
	}

	/** A rollout begins: it is left alone for a moment. */
	#hush(): void {
		const since = this.#quiet?.since ?? Date.now();
		this.#quiet = { since, until: Math.min(Date.now() + QUIET_MS, since + LONGEST_QUIET_MS) };
		this.#makeMore();
	}

	/**
	 * Making a box keeps a core busy for two seconds. So only half of the cores make boxes, and none begins right after a rollout
	 * did: what runs goes before what may run.
	 */
	#makeMore(): void {
		if (this.#stop.signal.aborted) return;
		const quietMs = (this.#quiet?.until ?? 0) - Date.now();
		if (quietMs > 0) {
			setTimeout(() => this.#makeMore(), quietMs).unref();
			return;
		}
		this.#quiet = null;
		while (this.#making < this.#lanes) {
			const shelf = this.#shortest();
			if (shelf === undefined) return;
			this.#making += 1;
			const box = this.#make(shelf).finally(() => {
				this.#making -= 1;
				// Later, so that whoever waits for this box can ask for quiet.
				setImmediate(() => this.#makeMore());
			});
			shelf.boxes.push(box);
		}
	}

	/** Somebody waits for a box that is made for a task; a generic one is for whoever may come. */
	#shortest(): Shelf | undefined {
		return [...this.#primed.values(), this.#generic].find(({ boxes, wanted }) => boxes.length < wanted);
	}

	/** Rollouts that were aborted, or run elsewhere, leave boxes behind that nobody will come for. */
	async #sweep(): Promise<void> {
		for (const [recipe, shelf] of this.#primed) {
			const upcoming = await this.#upcoming(shelf);
			shelf.wanted = Math.min(shelf.wanted, upcoming);
			for (const box of shelf.boxes.splice(upcoming)) void this.#discard(box);
			if (upcoming === 0) this.#primed.delete(recipe);
		}
	}

	/** When that cannot be told, all of them are. */
	async #upcoming({ request }: Shelf): Promise<number> {
		try {
			return await this.#options.upcoming(request);
		} catch (error) {
			this.#options.warn(`warm boxes could not be counted: ${messageOf(error)}`);
			return Number.POSITIVE_INFINITY;
		}
	}

	async #discard(box: Promise<WarmBox | null>): Promise<void> {
		try {
			await (await box)?.[Symbol.asyncDispose]();
		} catch (error) {
			this.#options.warn(`a warm box could not be closed: ${messageOf(error)}`);
		}
	}

	async #make({ request, forTask }: Shelf): Promise<WarmBox | null> {
		try {
			return await makeWarm(this.#options, request, forTask, this.#stop.signal);
		} catch (error) {
			// The rollout that would have used it opens a cold box and reports what is really wrong.
			if (!this.#stop.signal.aborted) this.#options.warn(`a warm box could not be made: ${messageOf(error)}`);
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
	const setup: SetupEvent[] = [];
	const given = forTask ? stack.use(await prepare(request, box, (event) => setup.push(event), signal)) : null;
	const key = newKey();
	const agent = stack.use(await bootAgent(options, box, request, key, signal));
	{
		using _priming = options.gateway.prime(box.id, key);
		const workdir = pathIn(box, WORKDIR);
		// The agent remembers what it saw of a directory: the workdir is shown to it only with the task in place.
		await agent.prime(forTask ? workdir : box.home);
		if (forTask) await agent.openAhead(workdir);
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
		await warm.agent.ping();
		return true;
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
	for (const event of warm.setup) record.setUp(event);
	const given = warm.given ?? (await prepare(request, box, (event) => record.setUp(event), signal));
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
