import type { Rollout, RolloutRow } from "../model/rollout.ts";
import type { Changed } from "./announcer.ts";
import type { CredentialDecision, CredentialRow, CredentialStep } from "./credential-steps.ts";
import type { FoundFilter } from "./filter.ts";
import type { KeptAgentDecision, KeptAgentRow, KeptAgentStep } from "./kept-agent-steps.ts";
import type { Walk } from "./order.ts";
import type { RolloutColumns } from "./rows.ts";
import type { Source } from "./statistics.ts";
import type { AbortTarget } from "./store.ts";
import type { StoredSubmission, Submitted } from "./submission.ts";
import type { Step } from "./transitions.ts";
import type { WithKeys } from "./vault/vault.ts";

export type SqlValue = string | number | null | Uint8Array;

/** Asks a database; values stand where the text has question marks. */
export interface Sql {
	all<Row extends object>(sql: string, ...values: SqlValue[]): Promise<Row[]>;
}

/**
 * What a store rests on. What it decides is the same everywhere: `Reads` asks, `transitions.ts` decides; a database
 * knows how to find, to lock and to write.
 */
export interface Database extends AsyncDisposable {
	readonly sql: Sql;
	/** The keys of the vault. */
	readonly withKeys: WithKeys;
	/** The rollouts that match, in the order asked for, from the cursor on. */
	list(filter: FoundFilter, walk: Walk): Promise<RolloutColumns[]>;
	/** Where those that match and have ended are found, for statistics. */
	ended(filter: FoundFilter): Source;
	/** In the order asked for; unknown ids are left out. */
	some(ids: string[]): Promise<RolloutRow[]>;

	/** All of it or nothing, or what came before with the same key. */
	submit(submission: StoredSubmission): Promise<Submitted>;
	/** Takes a step on each rollout of the target that it applies to, in one transaction; announces what it committed. */
	change(target: AbortTarget, step: Step): Promise<Changed[]>;
	/** A step whose rollout is handed out: were reading it to fail alone, an attempt would count that nobody makes. */
	begin(id: string, worker: string): Promise<Rollout | null>;
	/** Erases commands that have been obeyed, unless another attempt has begun. */
	dropCommands(id: string, attempt: number, through: number): Promise<void>;
	/** By label, with the holds that are not over by the database's own clock. */
	credentials(): Promise<CredentialRow[]>;
	/** Takes a step on one credential, alone, by the database's own clock. */
	changeCredential(label: string, step: CredentialStep): Promise<CredentialDecision>;
	/** By name. */
	agents(): Promise<KeptAgentRow[]>;
	/** Takes a step on one kept agent, alone. */
	changeAgent(name: string, step: KeptAgentStep): Promise<KeptAgentDecision>;
	/** Calls back soon after anything about the rollout, or the kept agent, changed, in whatever process. */
	watch(id: string, onChange: () => void): Disposable;
}
