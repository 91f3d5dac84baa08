import type { SqlValue } from "../database.ts";
import { type ColumnTest, columnTests, type FoundFilter, kindTests } from "../filter.ts";
import type { Statements } from "./statements.ts";

/** An index that finds at most this many rows is worth following, whatever the other filters are. */
const FEW = 2_000;

/** Where matching rows `r` are found, and by which conditions. */
export interface Selected {
	from: string;
	/** Where the position of a row is read, so that the leading index gives the order. */
	position: string;
	where: string[];
	values: SqlValue[];
}

/** One part of a filter: it may lead, so that its index is followed, or check what another one found. */
interface Part {
	column?: string;
	from: string;
	position: string;
	leading: string;
	checking: string;
	values: SqlValue[];
	isOrdered: boolean;
}

/**
 * One index leads: the first whose value is rare, which a look at a few of its entries tells; SQLite itself knows only
 * averages. Where none is rare, one leads that gives the order asked for, if there is one.
 */
export function select(sql: Statements, filter: FoundFilter, order: string): Selected {
	const parts = [...columnTests(filter).map(toPart), ...textParts(filter), ...labelParts(filter)];
	const ordered =
		order === "position"
			? parts.findLast((part) => part.isOrdered)
			: parts.find((part) => part.column === order);
	const isAlone = parts.length === 1 && ordered !== undefined;
	const leader = (isAlone ? undefined : parts.find((part) => isRare(sql, part))) ?? ordered;
	return {
		from: leader?.from ?? ROLLOUTS,
		position: leader?.position ?? "r.position",
		where: [...kindTests(filter), ...parts.map((part) => (part === leader ? part.leading : part.checking))],
		values: parts.flatMap((part) => part.values),
	};
}

const ROLLOUTS = "rollouts r";

function toPart({ column, tests, isOrdered }: ColumnTest): Part {
	const all = (name: string) => tests.map((test) => `${name} ${test.sql}`).join(" AND ");
	return {
		...{ column, from: ROLLOUTS, position: "r.position", isOrdered },
		leading: all(`r.${column}`),
		// The plus keeps SQLite from following that column's index.
		checking: all(`+r.${column}`),
		values: tests.flatMap((test) => test.values),
	};
}

/** Each word begins one of the rollout's. */
function textParts({ words }: FoundFilter): Part[] {
	if (words === undefined) return [];
	const leading = "w.rollout_words MATCH ?";
	return [
		{
			from: "rollout_words w CROSS JOIN rollouts r ON r.position = w.rowid",
			position: "w.rowid",
			leading,
			checking: `r.position IN (SELECT w.rowid FROM rollout_words w WHERE ${leading})`,
			values: [words.map((word) => `"${word}"*`).join(" ")],
			isOrdered: true,
		},
	];
}

function labelParts({ label }: FoundFilter): Part[] {
	if (label === undefined) return [];
	const leading = "l.name = ? AND l.value = ?";
	return [
		{
			from: "labels l CROSS JOIN rollouts r ON r.position = l.position",
			position: "l.position",
			leading,
			checking: `EXISTS (SELECT 1 FROM labels l WHERE ${leading} AND l.position = r.position)`,
			values: [label.name, label.value],
			isOrdered: true,
		},
	];
}

function isRare(sql: Statements, { from, leading, values }: Part): boolean {
	const [table] = from.split(" CROSS JOIN ");
	const row = sql.get<{ count: number }>(
		`SELECT count(*) AS count FROM (SELECT 1 FROM ${table} WHERE ${leading} LIMIT ${FEW})`,
		...values,
	);
	return row!.count < FEW;
}
