import { createReadStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { type DuckDBAppender, type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import type { SampleRow } from "./rows.ts";
import type { Destination, RowSink } from "./sink.ts";

/** The columns in order, with the type each has in the file. Lists travel as text and are cast by DuckDB. */
const COLUMNS: Record<keyof SampleRow, string> = {
	rollout_id: "VARCHAR",
	task_id: "VARCHAR",
	group_id: "VARCHAR",
	attempt: "INTEGER",
	outcome: "VARCHAR",
	reward: "DOUBLE",
	advantage: "DOUBLE",
	sample: "INTEGER",
	samples: "INTEGER",
	rollout_trained_tokens: "BIGINT",
	purpose: "VARCHAR",
	session_id: "VARCHAR",
	parent_session_id: "VARCHAR",
	calls: "INTEGER[]",
	prompt_length: "INTEGER",
	token_ids: "INTEGER[]",
	loss_mask: "UTINYINT[]",
	logprobs: "FLOAT[]",
	finish_reason: "VARCHAR",
	model: "VARCHAR",
	engine: "VARCHAR",
	weight_versions: "VARCHAR[]",
	break: "STRUCT(reason VARCHAR, position INTEGER, call INTEGER, previousCall INTEGER)",
	trainable: "BOOLEAN",
	untrainable_reasons: "VARCHAR[]",
};
const NAMES = Object.keys(COLUMNS) as (keyof SampleRow)[];

/** A batch is written out at this many tokens, so that memory does not grow with the number of samples. */
const BATCH_TOKENS = 1_000_000;
const BATCH_ROWS = 2_000;

/** Rows to one parquet file: small files batch by batch, joined at the end, each step in bounded memory. */
export class ParquetSink implements RowSink<SampleRow> {
	readonly #folder: string;
	readonly #instance: DuckDBInstance;
	readonly #connection: DuckDBConnection;
	readonly #destination: Destination;
	#appender: DuckDBAppender | null = null;
	#batch = { rows: 0, tokens: 0 };
	#batches = 0;

	static async open(destination: Destination): Promise<ParquetSink> {
		const folder = await mkdtemp(join(tmpdir(), "paddock-export-"));
		const instance = await DuckDBInstance.create(":memory:", {
			threads: "1",
			memory_limit: "256MB",
			temp_directory: folder,
		});
		const connection = await instance.connect();
		// Row groups may then be cut by size; with one thread the rows stay in order all the same.
		await connection.run("SET preserve_insertion_order = false");
		return new ParquetSink(folder, instance, connection, destination);
	}

	private constructor(
		folder: string,
		instance: DuckDBInstance,
		connection: DuckDBConnection,
		destination: Destination,
	) {
		this.#folder = folder;
		this.#instance = instance;
		this.#connection = connection;
		this.#destination = destination;
	}

	async write(row: SampleRow): Promise<void> {
		this.#appender ??= await this.#newBatch();
		for (const name of NAMES) appendCell(this.#appender, row[name]);
		this.#appender.endRow();
		this.#batch.rows++;
		this.#batch.tokens += row.token_ids.length;
		if (this.#batch.tokens >= BATCH_TOKENS || this.#batch.rows >= BATCH_ROWS) await this.#writeBatch();
	}

	async close(): Promise<void> {
		if (this.#appender || this.#batches === 0) {
			this.#appender ??= await this.#newBatch();
			await this.#writeBatch();
		}
		const whole = this.#file("whole");
		await this.#copy(`FROM read_parquet(${quoted(this.#file("batch-*"))})`, whole);
		await pipeline(createReadStream(whole), this.#destination.stream, { end: false });
		await this.#destination.commit();
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#connection.closeSync();
		this.#instance.closeSync();
		await rm(this.#folder, { recursive: true, force: true });
		await this.#destination[Symbol.asyncDispose]();
	}

	async #newBatch(): Promise<DuckDBAppender> {
		const columns = NAMES.map((name) => `"${name}" ${isText(COLUMNS[name]) ? "VARCHAR" : COLUMNS[name]}`);
		await this.#connection.run(`CREATE OR REPLACE TABLE batch (${columns.join(", ")})`);
		this.#batch = { rows: 0, tokens: 0 };
		return this.#connection.createAppender("batch");
	}

	async #writeBatch(): Promise<void> {
		this.#appender?.closeSync();
		this.#appender = null;
		const typed = NAMES.map((name) => `"${name}"${castOf(COLUMNS[name])} AS "${name}"`);
		const number = String(this.#batches++).padStart(9, "0");
		await this.#copy(`SELECT ${typed.join(", ")} FROM batch`, this.#file(`batch-${number}`));
		await this.#connection.run("DROP TABLE batch");
	}

	async #copy(query: string, file: string): Promise<void> {
		await this.#connection.run(
			`COPY (${query}) TO ${quoted(file)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE_BYTES '32MB')`,
		);
	}

	#file(name: string): string {
		return join(this.#folder, `${name}.parquet`);
	}
}

function appendCell(appender: DuckDBAppender, value: SampleRow[keyof SampleRow]): void {
	if (value === null) appender.appendNull();
	else if (typeof value === "string") appender.appendVarchar(value);
	else if (typeof value === "boolean") appender.appendBoolean(value);
	else if (typeof value === "number") appender.appendDouble(value);
	else appender.appendVarchar(JSON.stringify(value));
}

/** Lists and structs: appending them element by element costs a hundred times more. */
function isText(type: string): boolean {
	return type.endsWith("[]") || type.startsWith("STRUCT");
}

/** Text in lists is quoted as JSON quotes it; lists of numbers need no such care and cast faster without. */
function castOf(type: string): string {
	const holdsText = isText(type) && type.includes("VARCHAR");
	return holdsText ? `::JSON::${type}` : `::${type}`;
}

function quoted(text: string): string {
	return `'${text.replaceAll("'", "''")}'`;
}
