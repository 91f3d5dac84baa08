import { createHash } from "node:crypto";
import { posix } from "node:path";
import { messageOf, RolloutError } from "../../errors.ts";
import { deliverableBlob } from "../../model/blob.ts";
import type { Rollout } from "../../model/rollout.ts";
import { WORKDIR } from "../../model/task.ts";
import { pathIn, type Sandbox } from "../../sandbox/sandbox.ts";
import type { Store } from "../../store/store.ts";
import { coalesce } from "../coalesce.ts";
import type { RolloutRecord } from "../record.ts";

const MAX_LISTED = 20_000;
const MAX_KEPT = 200;
const MAX_BYTES = 64 * 1024 * 1024;

/** The declared files of a conversation's workdir: kept and announced when they appear, and whenever they have changed. */
export class Deliverables {
	readonly #rollout: Rollout;
	readonly #box: Sandbox;
	readonly #store: Store;
	readonly #record: RolloutRecord;
	readonly #patterns: readonly string[];
	/** What is announced: path and digest. */
	readonly #known: Map<string, string>;
	readonly #refused = new Set<string>();
	#looking: Promise<void> = Promise.resolve();
	/** A tool has run: soon, and once however many have. */
	readonly stirred = coalesce(
		() => this.look(),
		() => {},
	);

	constructor(
		rollout: Rollout,
		box: Sandbox,
		store: Store,
		record: RolloutRecord,
		known: ReadonlyMap<string, string>,
	) {
		this.#rollout = rollout;
		this.#box = box;
		this.#store = store;
		this.#record = record;
		this.#patterns = rollout.request.conversation?.deliverables ?? [];
		this.#known = new Map(known);
	}

	/** Resolves when everything that is there now is announced. Never rejects: what cannot be kept is noted. */
	look(): Promise<void> {
		if (this.#patterns.length === 0) return this.#looking;
		this.#looking = this.#looking.then(async () => {
			try {
				await this.#lookOnce();
			} catch (error) {
				this.#record.note(`deliverables could not be looked for: ${messageOf(error)}`);
			}
		});
		return this.#looking;
	}

	async #lookOnce(): Promise<void> {
		const workdir = pathIn(this.#box, WORKDIR);
		const entries = await this.#box.list(workdir, { recursive: true, maxEntries: MAX_LISTED });
		const wanted = entries.filter(({ type, path }) => type === "file" && this.#isDeclared(path));
		for (const { path, sizeBytes } of wanted) {
			if (!this.#known.has(path) && this.#known.size >= MAX_KEPT)
				return this.#refuse("", `more than ${MAX_KEPT} deliverables: the rest is not kept`);
			if (sizeBytes > MAX_BYTES) this.#refuse(path, `${path} is too large to be kept: ${sizeBytes} bytes`);
			else await this.#keep(workdir, path);
		}
	}

	#isDeclared(path: string): boolean {
		return this.#patterns.some((pattern) => posix.matchesGlob(path, pattern));
	}

	async #keep(workdir: string, path: string): Promise<void> {
		const data = await this.#read(`${workdir}/${path}`);
		if (data === null) return;
		const sha256 = createHash("sha256").update(data).digest("hex");
		if (this.#known.get(path) === sha256) return;
		const { id, attempt } = this.#rollout;
		await this.#store.putBlob(id, attempt, deliverableBlob(path), data);
		this.#known.set(path, sha256);
		this.#record.emit({ type: "deliverable", path, sizeBytes: data.length, sha256 });
	}

	/** Null for what has gone meanwhile, or was made unreadable. */
	async #read(path: string): Promise<Buffer | null> {
		try {
			return await this.#box.readFile(path, { maxBytes: MAX_BYTES });
		} catch (error) {
			if (error instanceof RolloutError && error.boundary === "sandbox") return null;
			throw error;
		}
	}

	#refuse(path: string, why: string): void {
		if (this.#refused.has(path)) return;
		this.#refused.add(path);
		this.#record.note(why);
	}
}
