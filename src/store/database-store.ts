import type { BlobName } from "../model/blob.ts";
import type { Command } from "../model/command.ts";
import type { ConversationRow } from "../model/conversation.ts";
import type { EventBody, RolloutEvent } from "../model/event.ts";
import type { Failure } from "../model/failure.ts";
import type { Kind } from "../model/id.ts";
import type { Batch, Group, Rollout, RolloutRow } from "../model/rollout.ts";
import type { Statistics } from "../model/statistics.ts";
import type { Announcer, Changed } from "./announcer.ts";
import { AttemptBlobs } from "./bytes/attempt-blobs.ts";

import type { Bytes } from "./bytes/bytes.ts";
import { Credentials } from "./credentials.ts";
import type { Database } from "./database.ts";
import { findFilter } from "./filter.ts";
import { KeptAgents } from "./kept-agents.ts";
import { toWalk } from "./order.ts";
import { toPage } from "./page.ts";
import { Reads } from "./reads.ts";
import { type RolloutColumns, toConversation, toRow } from "./rows.ts";
import { noStatistics, statisticsOf } from "./statistics.ts";
import type {
	AbortHit,
	AbortTarget,
	GroupSummary,
	Page,
	PostedCommand,
	RolloutEnd,
	RolloutFilter,
	RolloutPatch,
	StatisticsOptions,
	Store,
	Submission,
} from "./store.ts";
import { queuedEvents, requireSame, toStored } from "./submission.ts";
import type { SeenVersions } from "./vault/seen.ts";
import type { Vault } from "./vault/vault.ts";

/** The store, whatever database it rests on. */
export class DatabaseStore implements Store {
	readonly credentials: Credentials;
	readonly agents: KeptAgents;
	readonly #database: Database;
	readonly #reads: Reads;
	readonly #announcer: Announcer;
	readonly #vault: Vault;
	readonly #bytes: Bytes;
	readonly #blobs: AttemptBlobs;
	#closing: Promise<void> | null = null;

	constructor(parts: {
		database: Database;
		announcer: Announcer;
		vault: Vault;
		seen: SeenVersions;
		bytes: Bytes;
	}) {
		this.#database = parts.database;
		this.#reads = new Reads(parts.database.sql);
		this.#announcer = parts.announcer;
		this.#vault = parts.vault;
		this.credentials = new Credentials(parts.database, parts.vault, parts.seen);
		this.agents = new KeptAgents(parts.database, parts.vault);
		this.#bytes = parts.bytes;
		this.#blobs = new AttemptBlobs(parts.bytes, (id) => this.#reads.attempt(id));
	}

	async submit(
		submission: Submission,
	): Promise<{ rollouts: RolloutRow[]; group: Group | null; batch: Batch | null; fresh: boolean }> {
		const stored = toStored(submission, this.#vault.store);
		const submitted = await this.#database.submit(stored);
		requireSame(stored, submitted);
		const { ids, groupId, batchId, fresh } = submitted;
		if (fresh) this.#announcer.committed(queuedEvents(stored));
		const [rollouts, group, batch] = await Promise.all([
			this.#database.some(ids),
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

	async list(
		filter: RolloutFilter,
		{ cursor, limit, order = "newest" }: Parameters<Store["list"]>[1],
	): Promise<Page<RolloutRow>> {
		const walk = toWalk(order, cursor, limit + 1);
		const found = await findFilter(this.#database.sql, filter);
		if (found === null) return { items: [], next: null };
		const { column } = walk;
		const figureOf = (row: RolloutColumns) => (column === "position" ? null : row[column]);
		return toPage(await this.#database.list(found, walk), limit, toRow, figureOf);
	}

	async statistics(filter: RolloutFilter, options: StatisticsOptions): Promise<Statistics> {
		const { since = 0, until = Number.MAX_SAFE_INTEGER } = options;
		const { sql } = this.#database;
		const found = await findFilter(sql, filter);
		if (found === null) return noStatistics(options);
		const source = this.#database.ended({ ...found, kind: "rollout", finished: { since, until } });
		return await statisticsOf(sql, source, options);
	}

	conversation(id: string): Promise<ConversationRow | null> {
		return this.#reads.conversation(id);
	}

	async conversations(
		filter: Pick<RolloutFilter, "status" | "label">,
		{ cursor, limit }: Parameters<Store["conversations"]>[1],
	): Promise<Page<ConversationRow>> {
		const walk = toWalk("newest", cursor, limit + 1);
		const rows = await this.#database.list({ ...filter, kind: "conversation" }, walk);
		return toPage(rows, limit, toConversation);
	}

	counts(kind?: Kind): Promise<{ queued: number; running: number; done: number }> {
		return this.#reads.counts(kind);
	}

	group(id: string): Promise<GroupSummary | null> {
		return this.#reads.group(id);
	}

	listGroups(options: Parameters<Store["listGroups"]>[0]): Promise<Page<Group>> {
		return this.#reads.listGroups(options);
	}

	batch(id: string): Promise<Batch | null> {
		return this.#reads.batch(id);
	}

	listBatches(options: Parameters<Store["listBatches"]>[0]): Promise<Page<Batch>> {
		return this.#reads.listBatches(options);
	}

	begin(id: string, worker: string): Promise<Rollout | null> {
		return this.#database.begin(id, worker);
	}

	async patch(id: string, attempt: number, patch: RolloutPatch): Promise<boolean> {
		return (await this.#append(id, attempt, [], patch)).length > 0;
	}

	async requeue(
		id: string,
		attempt: number,
		failure: Failure,
		options: { handedBack?: boolean | undefined } = {},
	): Promise<boolean> {
		const handedBack = options.handedBack === true;
		const step = { type: "requeue", attempt, failure, handedBack } as const;
		return (await this.#database.change({ id }, step)).length > 0;
	}

	async finish(id: string, attempt: number, end: RolloutEnd): Promise<boolean> {
		return (await this.#database.change({ id }, { type: "finish", attempt, end })).length > 0;
	}

	async reopen(id: string, { by, apiKey }: Parameters<Store["reopen"]>[1]): Promise<boolean> {
		const sealed = apiKey === undefined ? null : this.#vault.store.seal(apiKey, id);
		return (await this.#database.change({ id }, { type: "reopen", by, sealed })).length > 0;
	}

	async requestAbort(target: AbortTarget): Promise<AbortHit[]> {
		const changed = await this.#database.change(target, { type: "abort" });
		return changed.map(({ id, attempt, status }) => ({ id, attempt, ended: status === "done" }));
	}

	async append(
		id: string,
		attempt: number,
		events: EventBody[],
		patch: RolloutPatch = {},
	): Promise<RolloutEvent[]> {
		if (events.length === 0) return [];
		const [changed] = await this.#append(id, attempt, events, patch);
		return changed?.events ?? [];
	}

	events(id: string, options: { after: number; limit: number }): Promise<RolloutEvent[]> {
		return this.#reads.events(id, options);
	}

	watch(id: string, onChange: () => void): Disposable {
		return this.#database.watch(id, onChange);
	}

	onCommit(listener: (event: RolloutEvent) => void): Disposable {
		return this.#announcer.listen(listener);
	}

	appendTrace(id: string, attempt: number, bytes: Uint8Array): Promise<void> {
		return this.#bytes.appendTrace(id, attempt, bytes);
	}

	readTrace(id: string, attempt: number): AsyncIterable<Uint8Array> {
		return this.#bytes.readTrace(id, attempt);
	}

	putBlob(id: string, attempt: number, name: BlobName, data: Uint8Array): Promise<void> {
		return this.#blobs.put(id, attempt, name, data);
	}

	getBlob(id: string, name: BlobName): Promise<Buffer | null> {
		return this.#blobs.get(id, name);
	}

	lastBlob(id: string, name: BlobName): Promise<Buffer | null> {
		return this.#blobs.last(id, name);
	}

	listBlobs(id: string): Promise<BlobName[]> {
		return this.#blobs.list(id);
	}

	async post(id: string, command: Command): Promise<boolean> {
		const step = { type: "post", command: JSON.stringify(command) } as const;
		return (await this.#database.change({ id }, step)).length > 0;
	}

	commands(id: string, attempt: number): Promise<PostedCommand[]> {
		return this.#reads.commands(id, attempt);
	}

	dropCommands(id: string, attempt: number, through: number): Promise<void> {
		return this.#database.dropCommands(id, attempt, through);
	}

	async secret(id: string): Promise<string | null> {
		const sealed = await this.#reads.sealed(id);
		return sealed === null ? null : this.#vault.store.open(sealed, id).toString("utf8");
	}

	rotateKey(): Promise<void> {
		return this.#vault.rotate();
	}

	[Symbol.asyncDispose](): Promise<void> {
		this.#closing ??= this.#close();
		return this.#closing;
	}

	async #close(): Promise<void> {
		await this.#bytes[Symbol.asyncDispose]();
		await this.#database[Symbol.asyncDispose]();
	}

	#append(id: string, attempt: number, events: EventBody[], patch: RolloutPatch): Promise<Changed[]> {
		return this.#database.change({ id }, { type: "append", attempt, events, patch });
	}
}
