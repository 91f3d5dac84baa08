import { join } from "node:path";
import type pg from "pg";
import type { EventBody, RolloutEvent } from "../../model/event.ts";
import type { Failure } from "../../model/failure.ts";
import type { Batch, Group, Rollout, RolloutRow } from "../../model/rollout.ts";
import { AttemptBlobs } from "../bytes/attempt-blobs.ts";
import type { Bytes } from "../bytes/bytes.ts";
import { type BytePlaces, bytePlacesFrom, openBytes } from "../bytes/places.ts";
import type { Sealer } from "../seal.ts";
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
import { checkSchema, clientConfig, connect, openPool, type PostgresOptions } from "./connection.ts";
import { openSharedSealer } from "./key.ts";
import { PostgresListener } from "./listener.ts";
import { PostgresReads } from "./reads.ts";
import { migrate } from "./schema.ts";
import { PostgresWrites } from "./writes.ts";

export interface PostgresStoreOptions extends BytePlaces {
	url: string;
	/** Holds the key file, which all servers and workers of one database must share: another one is refused. */
	home: string;
	/** `<home>/secret.key` unless given. */
	keyFile?: string;
	/** Says where traces and blobs go, unless the options say so. */
	env?: Record<string, string | undefined>;
	schema?: string;
	connections?: number;
}

/** The store of many machines: everything in one PostgreSQL schema, which is brought up to date on opening. */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
	const schema = checkSchema(options.schema ?? "paddock");
	const connection: PostgresOptions = { url: options.url, schema, connections: options.connections ?? 10 };
	const client = await connect(connection);
	try {
		await migrate(client, schema);
	} finally {
		await client.end();
	}
	const pool = openPool(connection);
	try {
		const sealer = await openSharedSealer(pool, options.keyFile ?? join(options.home, "secret.key"));
		const bytes = await openBytes({ ...bytePlacesFrom(options.env ?? {}), ...options }, pool);
		return new PostgresStore(connection, pool, sealer, bytes);
	} catch (error) {
		await pool.end();
		throw error;
	}
}

class PostgresStore implements Store {
	readonly #pool: pg.Pool;
	readonly #sealer: Sealer;
	readonly #bytes: Bytes;
	readonly #blobs: AttemptBlobs;
	readonly #reads: PostgresReads;
	readonly #writes: PostgresWrites;
	readonly #watchers = new Watchers();
	readonly #listener: PostgresListener;
	#closing: Promise<void> | null = null;

	constructor(connection: PostgresOptions, pool: pg.Pool, sealer: Sealer, bytes: Bytes) {
		const channel = `paddock_${connection.schema}`;
		this.#pool = pool;
		this.#sealer = sealer;
		this.#bytes = bytes;
		this.#reads = new PostgresReads(pool);
		this.#blobs = new AttemptBlobs(bytes, (id) => this.#reads.attempt(id));
		this.#writes = new PostgresWrites(pool, channel, (id, revision) => this.#watchers.changed(id, revision));
		this.#listener = new PostgresListener(clientConfig(connection), channel, {
			payload: (payload) => {
				const [id, revision] = payload.split(" ");
				this.#watchers.changed(id!, Number(revision));
			},
			connected: () => this.#watchers.all(),
		});
	}

	async submit(
		submission: Submission,
	): Promise<{ rollouts: RolloutRow[]; group: Group | null; batch: Batch | null; fresh: boolean }> {
		const stored = toStored(submission, this.#sealer);
		const submitted = await this.#writes.submit(stored);
		requireSame(stored, submitted);
		const { ids, groupId, batchId, fresh } = submitted;
		const [rollouts, group, batch] = await Promise.all([
			this.#reads.some(ids),
			groupId === null ? null : this.#reads.plainGroup(groupId),
			batchId === null ? null : this.#reads.batch(batchId),
		]);
		return { rollouts, group, batch, fresh };
	}

	isSubmitted(idempotencyKey: string): Promise<boolean> {
		return this.#reads.isSubmitted(idempotencyKey);
	}

	get(id: string): Promise<Rollout | null> {
		return this.#reads.get(id);
	}

	row(id: string): Promise<RolloutRow | null> {
		return this.#reads.row(id);
	}

	list(
		filter: RolloutFilter,
		options: { cursor?: string; limit: number; order?: "newest" | "oldest" },
	): Promise<Page<RolloutRow>> {
		return this.#reads.list(filter, options);
	}

	counts(): Promise<{ queued: number; running: number; done: number }> {
		return this.#reads.counts();
	}

	group(id: string): Promise<GroupSummary | null> {
		return this.#reads.group(id);
	}

	listGroups(options: { batchId?: string; cursor?: string; limit: number }): Promise<Page<Group>> {
		return this.#reads.listGroups(options);
	}

	batch(id: string): Promise<Batch | null> {
		return this.#reads.batch(id);
	}

	listBatches(options: { cursor?: string; limit: number }): Promise<Page<Batch>> {
		return this.#reads.listBatches(options);
	}

	begin(id: string, worker: string): Promise<Rollout | null> {
		return this.#writes.begin(id, worker);
	}

	patch(id: string, attempt: number, patch: RolloutPatch): Promise<boolean> {
		return this.#writes.patch(id, attempt, patch);
	}

	requeue(
		id: string,
		attempt: number,
		failure: Failure,
		options: { handedBack?: boolean } = {},
	): Promise<boolean> {
		return this.#writes.requeue(id, attempt, failure, options.handedBack === true);
	}

	finish(id: string, attempt: number, end: RolloutEnd): Promise<boolean> {
		return this.#writes.finish(id, attempt, end);
	}

	requestAbort(target: AbortTarget): Promise<AbortHit[]> {
		return this.#writes.requestAbort(target);
	}

	async append(id: string, attempt: number, events: EventBody[]): Promise<RolloutEvent[]> {
		if (events.length === 0) return [];
		const at = Date.now();
		const first = await this.#writes.append(id, attempt, events, at);
		if (first === 0) return [];
		return events.map((event, index) => ({ rolloutId: id, seq: first + index, at, ...event }));
	}

	events(id: string, options: { after: number; limit: number }): Promise<RolloutEvent[]> {
		return this.#reads.events(id, options);
	}

	watch(id: string, onChange: () => void): Disposable {
		this.#listener.start();
		return this.#watchers.add(id, null, onChange);
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
		return this.#writes.post(id, JSON.stringify(command));
	}

	async takeCommands(id: string): Promise<RolloutCommand[]> {
		// Asked often and mostly in vain: a read needs no lock.
		if (!(await this.#reads.hasCommands(id))) return [];
		return (await this.#writes.takeCommands(id)).map((body) => JSON.parse(body) as RolloutCommand);
	}

	async secret(id: string): Promise<string | null> {
		const sealed = await this.#reads.sealed(id);
		return sealed === null ? null : this.#sealer.unseal(sealed, id);
	}

	[Symbol.asyncDispose](): Promise<void> {
		this.#closing ??= this.#close();
		return this.#closing;
	}

	async #close(): Promise<void> {
		await this.#listener[Symbol.asyncDispose]();
		await this.#bytes[Symbol.asyncDispose]();
		await this.#writes.settled();
		await this.#pool.end();
	}
}
