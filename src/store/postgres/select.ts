import type { SqlValue } from "../database.ts";
import { columnTests, type FoundFilter, kindTests } from "../filter.ts";

/** Where matching rows `r` are found; which index is followed PostgreSQL knows best. */
export function select(filter: FoundFilter): { from: string; where: string[]; values: SqlValue[] } {
	const { words, label } = filter;
	const parts = [
		...columnTests(filter).flatMap(({ column, tests }) =>
			tests.map(({ sql, values }) => ({ sql: `r.${column} ${sql}`, values })),
		),
		// Each word begins one of the rollout's. Letters and digits need no other quotes.
		...(words
			? [{ sql: "w.words @@ ?::tsquery", values: [words.map((word) => `'${word}':*`).join(" & ")] }]
			: []),
		...(label ? [{ sql: "l.name = ? AND l.value = ?", values: [label.name, label.value] }] : []),
	];
	return {
		from: [
			"rollouts r",
			...(words ? ["JOIN rollout_words w ON w.position = r.position"] : []),
			...(label ? ["JOIN labels l ON l.position = r.position"] : []),
		].join(" "),
		where: [...kindTests(filter), ...parts.map((part) => part.sql)],
		values: parts.flatMap((part) => part.values),
	};
}
