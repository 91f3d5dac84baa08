import { expect, test } from "vitest";
import type { RolloutRow } from "../../src/model/rollout.ts";
import { extend, refresh, takeFresh } from "../../src/ui/data/listing.ts";
import { filtersOf, keyOf } from "../../src/ui/pages/rollouts/address.ts";

const rowsOf = (...ids: string[]) => ids.map((id) => ({ id, status: "done" }) as RolloutRow);
const page = (next: string | null, ...ids: string[]) => ({ items: rowsOf(...ids), next });
const shown = ({ rows }: { rows: readonly RolloutRow[] }) => rows.map((row) => row.id).join("");

test("what newer rollouts push off the first page stays in the list", () => {
	const first = refresh(null, page("d", "d", "c"), true);
	const both = extend(first, page(null, "b", "a"));
	const after = refresh(both, page("e", "f", "e"), true);
	expect(shown(after)).toBe("dcba");
	const some = refresh(first, page("d", "e", "d"), true);
	expect([shown(some), some.fresh.map((row) => row.id)]).toEqual(["dc", ["e"]]);
	expect(shown(takeFresh(some, page("d", "e", "d")))).toBe("edc");
	// Sorted otherwise, they come in at once and hold nothing off either.
	expect(shown(refresh(both, page("c", "e", "d"), false))).toBe("edcba");
});

test("so many new ones that nothing is in common begin the list anew, without a hole", () => {
	const first = refresh(null, page("b", "b", "a"), true);
	const newest = page("z", "z", "y");
	const apart = refresh(first, newest, true);
	expect(shown(apart)).toBe("ba");
	expect(takeFresh(apart, newest)).toMatchObject({ rows: newest.items, next: "z", fresh: [] });
});

test("what no longer fits the filters goes, and what did not change stays the same object", () => {
	const first = extend(refresh(null, page("b", "d", "c", "b"), true), page(null, "a"));
	expect(shown(refresh(first, page("b", "d", "b", "a"), true))).toBe("dba");
	expect(refresh(first, page("b", "d", "c", "b"), true)).toBe(first);
	expect(shown(refresh(first, page(null, "d"), true))).toBe("d");
});

test("a list of the last hour is the same list a minute later", () => {
	const query = new URLSearchParams("age=1h&status=done");
	const [now, later] = [filtersOf(query), { ...filtersOf(query), since: Date.now() + 60_000 }];
	expect(keyOf(later, query)).toBe(keyOf(now, query));
	expect(keyOf(now, query)).not.toBe(keyOf(now, new URLSearchParams("age=24h&status=done")));
});
