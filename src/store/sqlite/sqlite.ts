import { access, constants, mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { messageOf, UsageError } from "../../errors.ts";
import type { EventBody, RolloutEvent } from "../../model/event.ts";
import type { Failure } from "../../model/failure.ts";
import type { Batch, Group, Rollout, RolloutRow } from "../../model/rollout.ts";
import { AttemptBlobs } from "../bytes/attempt-blobs.ts";
import type { Bytes } from "../bytes/bytes.ts";
import { FolderBytes } from "../bytes/folder-bytes.ts";
import { openSealer, type Sealer } from "../seal.ts";
import type {
	AbortHit,
	AbortTarget,
	GroupSummary,
	Page,
	RolloutCommand,
	RolloutEnd,
	RolloutFilter,
	RolloutPatch,
	Store,
	Submission,
} from "../store.ts";
import { requireSame, toStored } from "../submission.ts";
import { Watchers } from "../watchers.ts";
import { SqliteReads } from "./reads.ts";
import { configure, migrate } from "./schema.ts";
import { Statements } from "./statements.ts";
import { SqliteWriter } from "./writer.ts";

const OTHER_PROCESSES_EVERY_MS = 100;

export interface SqliteStoreOptions {
	/** Everything lies below this folder; several processes may open it at once. */
	home: string;
	/** Seals callers' keys; `<home>/secret.key` unless given. */
	keyFile?: string;
}

/** The embedded store: one SQLite file, trace logs and blobs as files beside it, all for the owner alone. */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
	const { home } = options;
	await prepareHome(home);
	const sealer = await openSealer(options.keyFile ?? join(home, "secret.key"));
	const bytes = await FolderBytes.open(home);
	const file = join(home, "paddock.db");
	// SQLite gives its side files the mode of the main one.
	await (await open(file, "a", 0o600)).close();
	const database = new DatabaseSync(file);
	try {
		configure(database);
		migrate(database);
	} catch (error) {
		database.close();
		throw error;
	}
	return new SqliteStore(file, database, sealer, bytes);
}

async function prepareHome(home: string): Promise<void> {
	try {
		await mkdir(home, { recursive: true, mode: 0o700 });
		await access(home, constants.R_OK | constants.W_OK | constants.X_OK);
	} catch (cause) {
		const message = `${home} cannot be used: ${messageOf(cause)}. Choose another folder with PADDOCK_HOME.`;
		throw Object.assign(new UsageError(message, "home_unusable"), { cause });
	}
}

class SqliteStore implements Store {
	readonly #database: DatabaseSync;
	readonly #sealer: Sealer;
	readonly #bytes: Bytes;
	readonly #blobs: AttemptBlobs;
	readonly #reads: SqliteReads;
	readonly #writer: SqliteWriter;
	readonly #watchers = new Watchers();
	#dataVersion = 0;
	#poll: NodeJS.Timeout | null = null;
	#closing: Promise<void> | null = null;

	constructor(file: string, database: DatabaseSync, sealer: Sealer, bytes: Bytes) {
		this.#database = database;
		this.#sealer = sealer;
		this.#bytes = bytes;
		this.#reads = new SqliteReads(new Statements(database));
		this.#blobs = new AttemptBlobs(bytes, async (id) => this.#reads.attempt(id));
		this.#writer = new SqliteWriter(file, (id, revision) => this.#watchers.changed(id, revision));
	}

	async submit(
		submission: Submission,
	): Promise<{ rollouts: RolloutRow[]; group: Group | null; batch: Batch | null; fresh: boolean }> {
		const stored = toStored(submission, this.#sealer);
		const submitted = await this.#writer.order("submit", stored);
		requireSame(stored, submitted);
		return {
			rollouts: submitted.ids.flatMap((id) => this.#reads.row(id) ?? []),
			group: this.#reads.plainGroup(submitted.groupId),
			batch: this.#reads.batch(submitted.batchId),
			fresh: submitted.fresh,
		};
	}

	async isSubmitted(idempotencyKey: string): Promise<boolean> {
		return this.#reads.isSubmitted(idempotencyKey);
	}

	async get(id: string): Promise<Rollout | null> {
		return this.#reads.get(id);
	}

	async row(id: string): Promise<RolloutRow | null> {
		return this.#reads.row(id);
	}

	async list(
		filter: RolloutFilter,
		options: { cursor?: string; limit: number; order?: "newest" | "oldest" },
	): Promise<Page<RolloutRow>> {
		return this.#reads.list(filter, options);
	}

	async counts(): Promise<{ queued: number; running: number; done: number }> {
		return this.#reads.counts();
	}

	async group(id: string): Promise<GroupSummary | null> {
		return this.#reads.group(id);
	}

	async listGroups(options: { batchId?: string; cursor?: string; limit: number }): Promise<Page<Group>> {
		return this.#reads.listGroups(options);
	}

	async batch(id: string): Promise<Batch | null> {
		return this.#reads.batch(id);
	}

	async listBatches(options: { cursor?: string; limit: number }): Promise<Page<Batch>> {
		return this.#reads.listBatches(options);
	}

	async begin(id: string, worker: string): Promise<Rollout | null> {
		const attempt = await this.#writer.order("begin", id, worker, Date.now());
		return attempt === null ? null : this.#reads.get(id);
	}

	patch(id: string, attempt: number, patch: RolloutPatch): Promise<boolean> {
		return this.#writer.order("patch", id, attempt, patch);
	}

	requeue(
		id: string,
		attempt: number,
		failure: Failure,
		options: { handedBack?: boolean } = {},
	): Promise<boolean> {
		return this.#writer.order("requeue", id, attempt, failure, options.handedBack === true, Date.now());
	}

	finish(id: string, attempt: number, end: RolloutEnd): Promise<boolean> {
		return this.#writer.order("finish", id, attempt, end, Date.now());
	}

	requestAbort(target: AbortTarget): Promise<AbortHit[]> {
		return this.#writer.order("requestAbort", target, Date.now());
	}

	async append(id: string, attempt: number, events: EventBody[]): Promise<RolloutEvent[]> {
		if (events.length === 0) return [];
		const at = Date.now();
		const first = await this.#writer.order("append", id, attempt, events, at);
		if (first === 0) return [];
		return events.map((event, index) => ({ rolloutId: id, seq: first + index, at, ...event }));
	}

	async events(id: string, options: { after: number; limit: number }): Promise<RolloutEvent[]> {
		return this.#reads.events(id, options);
	}

	watch(id: string, onChange: () => void): Disposable {
		// First the file's version, then the rollout's: a change in between is noticed rather than missed.
		this.#poll ??= this.#startPolling();
		const watcher = this.#watchers.add(id, this.#reads.revision(id), onChange);
		return {
			[Symbol.dispose]: () => {
				watcher[Symbol.dispose]();
				if (this.#watchers.size === 0) this.#stopPolling();
			},
		};
	}

	appendTrace(id: string, attempt: number, bytes: Uint8Array): Promise<void> {
		return this.#bytes.appendTrace(id, attempt, bytes);
	}

	readTrace(id: string, attempt: number): AsyncIterable<Uint8Array> {
		return this.#bytes.readTrace(id, attempt);
	}

	putBlob(id: string, attempt: number, name: string, data: Uint8Array): Promise<void> {
		return this.#blobs.put(id, attempt, name, data);
	}

	getBlob(id: string, name: string): Promise<Buffer | null> {
		return this.#blobs.get(id, name);
	}

	listBlobs(id: string): Promise<string[]> {
		return this.#blobs.list(id);
	}

	post(id: string, command: RolloutCommand): Promise<boolean> {
		return this.#writer.order("post", id, JSON.stringify(command));
	}

	async takeCommands(id: string): Promise<RolloutCommand[]> {
		// Asked often and mostly in vain: a read needs no lock.
		if (!this.#reads.hasCommands(id)) return [];
		const bodies = await this.#writer.order("takeCommands", id);
		return bodies.map((body) => JSON.parse(body) as RolloutCommand);
	}

	async secret(id: string): Promise<string | null> {
		const sealed = this.#reads.sealed(id);
		return sealed === null ? null : this.#sealer.unseal(sealed, id);
	}

	[Symbol.asyncDispose](): Promise<void> {
		this.#closing ??= this.#close();
		return this.#closing;
	}

	async #close(): Promise<void> {
		this.#stopPolling();
		await this.#bytes[Symbol.asyncDispose]();
		await this.#writer[Symbol.asyncDispose]();
		this.#database.close();
	}

	/** Only while somebody watches: changes made by other processes show in the file's version. */
	#startPolling(): NodeJS.Timeout {
		this.#dataVersion = this.#reads.dataVersion();
		return setInterval(() => {
			const version = this.#reads.dataVersion();
			if (version === this.#dataVersion) return;
			this.#dataVersion = version;
			for (const id of this.#watchers.ids()) this.#watchers.changed(id, this.#reads.revision(id) ?? -1);
		}, OTHER_PROCESSES_EVERY_MS);
	}

	#stopPolling(): void {
		if (this.#poll) clearInterval(this.#poll);
		this.#poll = null;
	}
}
