import pg from "pg";
import type { Rollout } from "../../model/rollout.ts";
import type { Changed } from "../announcer.ts";
import { GroupCommit } from "../bytes/group-commit.ts";
import { Reads } from "../reads.ts";
import type { AbortTarget } from "../store.ts";
import type { StoredSubmission, Submitted } from "../submission.ts";
import { type Change, change, dueFor, HEAD, type Head, type Step } from "../transitions.ts";
import { ask, sqlOn } from "./connection.ts";
import { submit } from "./submit.ts";
import { transact } from "./transact.ts";
import { writeChanges } from "./write-changes.ts";

interface Append {
	id: string;
	step: Step;
}

/**
 * Every change of the PostgreSQL store. A change locks its rollouts first, always in order of position, so that
 * changes wait for each other and never deadlock; then it decides on what it sees.
 */
export class PostgresWrites {
	readonly #pool: pg.Pool;
	readonly #channel: string;
	readonly #appends = new GroupCommit((appends: Append[]) => this.#appendAll(appends));

	constructor(pool: pg.Pool, channel: string) {
		this.#pool = pool;
		this.#channel = channel;
	}

	submit(submission: StoredSubmission): Promise<Submitted> {
		return transact(this.#pool, (client) => submit(client, submission));
	}

	change(target: AbortTarget, step: Step): Promise<Changed[]> {
		// By far the most frequent: those that come while one commit is under way share the next.
		if (step.type === "append" && "id" in target) return this.#appends.add({ id: target.id, step });
		return this.#changeIn(target, step, async (_client, changed) => changed);
	}

	begin(id: string, worker: string): Promise<{ changed: Changed[]; rollout: Rollout | null }> {
		return this.#changeIn({ id }, { type: "begin", worker }, async (client, changed) => {
			const isBegun = changed[0]?.status === "running";
			return { changed, rollout: isBegun ? await new Reads(sqlOn(client)).get(id) : null };
		});
	}

	async dropCommands(id: string, attempt: number, through: number): Promise<void> {
		await ask(
			this.#pool,
			`DELETE FROM commands WHERE rollout_id = $1 AND position <= $3
				AND EXISTS (SELECT 1 FROM rollouts WHERE id = $1 AND attempt = $2)`,
			[id, attempt, through],
		);
	}

	settled(): Promise<void> {
		return this.#appends.settled();
	}

	#changeIn<T>(
		target: AbortTarget,
		step: Step,
		then: (client: pg.PoolClient, changed: Changed[]) => Promise<T>,
	): Promise<T> {
		return transact(
			this.#pool,
			async (client, heads: Head[]) => {
				const at = Date.now();
				const changes = heads.flatMap((head) => change(head, step, at) ?? []);
				return await then(client, await writeChanges(client, this.#channel, changes));
			},
			locking(columnOf(target), Object.values(target), dueFor(step)),
		);
	}

	#appendAll(appends: Append[]): Promise<Changed[][]> {
		const ids = [...new Set(appends.map(({ id }) => id))];
		return transact(
			this.#pool,
			async (client, locked: Head[]) => {
				const at = Date.now();
				const heads = new Map(locked.map((head) => [head.id, head]));
				const changes = appends.map(({ id, step }) => {
					const head = heads.get(id);
					const made = head ? change(head, step, at) : null;
					if (made) heads.set(id, made.head);
					return made;
				});
				const written = await writeChanges(client, this.#channel, changes.filter(isMade));
				return changes.map((made) => (made ? [written.shift()!] : []));
			},
			locking("id", ids, dueFor(appends[0]!.step)),
		);
	}
}

function isMade(made: Change | null): made is Change {
	return made !== null;
}

function columnOf(target: AbortTarget): "id" | "group_id" | "batch_id" {
	if ("id" in target) return "id";
	return "groupId" in target ? "group_id" : "batch_id";
}

/** In order of position: two changes of many rollouts wait for each other and never deadlock. */
function locking(column: string, values: string[], due: string): string {
	const named = values.map((value) => pg.escapeLiteral(value)).join(", ");
	return `SELECT ${HEAD} FROM rollouts WHERE ${column} IN (${named}) AND ${due} ORDER BY position FOR UPDATE`;
}
