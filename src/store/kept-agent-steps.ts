import type { AgentKeeperPlace, KeptAgent } from "../model/kept-agent.ts";

/** All that is kept of an agent in clear; both databases keep it as JSON. */
export type KeptAgentRecord = Omit<KeptAgent, "id" | "name">;

export interface KeptAgentRow {
	id: string;
	name: string;
	record: KeptAgentRecord;
	/** Its server's password, its gateway key, its endpoint's key. */
	sealed: Uint8Array;
	/** Grows with each change. */
	revision: number;
}

export type KeptAgentChange = Partial<
	Pick<KeptAgentRecord, "models" | "budget" | "permission" | "revokedAt" | "wanted" | "keyFingerprint">
>;

/** What may be done to a kept agent, as plain data: it travels to the thread that writes. */
export type KeptAgentStep =
	| { type: "add"; row: KeptAgentRow }
	| { type: "change"; change: KeptAgentChange; sealed?: Uint8Array | undefined; needsRestart: boolean }
	/** Only from `instead`, whom the caller found to be gone: of two that come at once, one gets it. */
	| { type: "take"; by: AgentKeeperPlace; instead: AgentKeeperPlace | null }
	| { type: "listens"; by: AgentKeeperPlace; baseUrl: string | null }
	| { type: "release"; by: AgentKeeperPlace }
	| { type: "spend"; calls: number; promptTokens: number; completionTokens: number }
	| { type: "remove" };

/** Why nothing was done. */
export type KeptAgentRefusal = "unknown" | "taken" | "kept";
export type KeptAgentDecision = { row: KeptAgentRow | null } | { refused: KeptAgentRefusal };

export function decideKept(row: KeptAgentRow | null, step: KeptAgentStep, now: number): KeptAgentDecision {
	if (step.type === "add") return row ? { refused: "taken" } : { row: step.row };
	if (!row) return { refused: "unknown" };
	const { record } = row;
	const to = (change: Partial<KeptAgentRecord>, sealed = row.sealed): KeptAgentDecision => ({
		row: { ...row, sealed, revision: row.revision + 1, record: { ...record, ...change, updatedAt: now } },
	});
	switch (step.type) {
		case "change": {
			const needsRestart = record.needsRestart || (step.needsRestart && record.keptBy !== null);
			return to({ ...step.change, needsRestart }, step.sealed);
		}
		case "take":
			if (!isSamePlace(record.keptBy, step.instead)) return { refused: "kept" };
			return to({
				...{ keptBy: step.by, baseUrl: null, wanted: "running", needsRestart: false },
				starts: record.starts + 1,
			});
		case "listens":
			return isSamePlace(record.keptBy, step.by) ? to({ baseUrl: step.baseUrl }) : { refused: "kept" };
		case "release":
			if (!isSamePlace(record.keptBy, step.by)) return { refused: "kept" };
			return to({ keptBy: null, baseUrl: null, needsRestart: false });
		case "spend": {
			const { calls, promptTokens, completionTokens } = record.spent;
			return to({
				spent: {
					calls: calls + step.calls,
					promptTokens: promptTokens + step.promptTokens,
					completionTokens: completionTokens + step.completionTokens,
				},
			});
		}
		case "remove":
			return { row: null };
	}
}

export function isSamePlace(one: AgentKeeperPlace | null, other: AgentKeeperPlace | null): boolean {
	if (one === null || other === null) return one === other;
	return one.machine === other.machine && one.pid === other.pid && one.startTime === other.startTime;
}
