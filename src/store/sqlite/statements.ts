import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { messageOf, OutageError } from "../../errors.ts";

/** SQLite's own numbers for what passes: busy, locked, input or output, full. */
const PASSING = new Set([5, 6, 10, 13]);

/** A connection's statements, prepared once by their text. Trouble that passes leaves as an outage. */
export class Statements {
	readonly #database: DatabaseSync;
	readonly #prepared = new Map<string, StatementSync>();

	constructor(database: DatabaseSync) {
		this.#database = database;
	}

	get<Row>(sql: string, ...values: SQLInputValue[]): Row | undefined {
		return reaching(() => this.#prepare(sql).get(...values) as Row | undefined);
	}

	all<Row>(sql: string, ...values: SQLInputValue[]): Row[] {
		return reaching(() => this.#prepare(sql).all(...values) as Row[]);
	}

	run(sql: string, ...values: SQLInputValue[]): void {
		reaching(() => this.#prepare(sql).run(...values));
	}

	/** Other processes wait: the write lock is taken at once. */
	transact<T>(change: () => T): T {
		return reaching(() => {
			this.#database.exec("BEGIN IMMEDIATE");
			try {
				const result = change();
				this.#database.exec("COMMIT");
				return result;
			} catch (error) {
				// A full disk has undone it already.
				if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
				throw error;
			}
		});
	}

	#prepare(sql: string): StatementSync {
		let statement = this.#prepared.get(sql);
		if (!statement) {
			statement = this.#database.prepare(sql);
			this.#prepared.set(sql, statement);
		}
		return statement;
	}
}

function reaching<T>(act: () => T): T {
	try {
		return act();
	} catch (error) {
		const { errcode } = error as { errcode?: unknown };
		// The low byte is the kind; the rest says more.
		if (typeof errcode !== "number" || !PASSING.has(errcode & 0xff)) throw error;
		throw new OutageError(messageOf(error), { cause: error });
	}
}
