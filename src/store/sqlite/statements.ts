import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";

/** Prepared once per connection, by their text. */
export class Statements {
	readonly #database: DatabaseSync;
	readonly #prepared = new Map<string, StatementSync>();

	constructor(database: DatabaseSync) {
		this.#database = database;
	}

	get<Row>(sql: string, ...values: SQLInputValue[]): Row | undefined {
		return this.#prepare(sql).get(...values) as Row | undefined;
	}

	all<Row>(sql: string, ...values: SQLInputValue[]): Row[] {
		return this.#prepare(sql).all(...values) as Row[];
	}

	/** How many rows it changed. */
	run(sql: string, ...values: SQLInputValue[]): number {
		return Number(this.#prepare(sql).run(...values).changes);
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
