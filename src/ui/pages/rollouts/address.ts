import { Outcome } from "../../../model/failure.ts";
import { RolloutOrder, RolloutStatus } from "../../../model/rollout.ts";

const HOUR_MS = 3_600_000;
export const AGES: Record<string, { label: string; ms: number }> = {
	"1h": { label: "last hour", ms: HOUR_MS },
	"24h": { label: "last 24 hours", ms: 24 * HOUR_MS },
	"7d": { label: "last 7 days", ms: 168 * HOUR_MS },
	"30d": { label: "last 30 days", ms: 720 * HOUR_MS },
};

/** The filters, as the address says them; what makes no sense there is left aside. */
export function filtersOf(query: URLSearchParams) {
	const text = (name: string) => query.get(name) ?? undefined;
	const number = (name: string) => {
		const value = Number.parseFloat(query.get(name) ?? "");
		return Number.isFinite(value) ? value : undefined;
	};
	const age = AGES[query.get("age") ?? ""];
	return {
		status: RolloutStatus.safeParse(query.get("status")).data,
		outcome: Outcome.safeParse(query.get("outcome")).data,
		task_id: text("task_id"),
		group_id: text("group_id"),
		batch_id: text("batch_id"),
		label: text("label"),
		model: text("model"),
		text: text("text"),
		min_reward: number("min_reward"),
		max_reward: number("max_reward"),
		min_duration_s: number("min_duration_s"),
		max_duration_s: number("max_duration_s"),
		since: age === undefined ? undefined : Date.now() - age.ms,
	};
}

/** What is asked for, in a word that stays the same while time goes on. */
export function keyOf(
	{ since: _, ...filters }: { since?: number | undefined },
	query: URLSearchParams,
): string {
	return JSON.stringify([filters, query.get("age")]);
}

export type Filters = ReturnType<typeof filtersOf>;

export function orderOf(query: URLSearchParams): RolloutOrder {
	return RolloutOrder.safeParse(query.get("order")).data ?? "newest";
}
