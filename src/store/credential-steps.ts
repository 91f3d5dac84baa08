import type { Credential, Finding, Quarantined } from "../model/credential.ts";

/** The right to use a credential, until it expires. A higher fence is a later one; a writer with an older one is refused. */
export interface HoldRecord {
	holder: string;
	fence: number;
	expiresAt: number;
}

/** All that is kept of a credential in clear; both databases keep it as JSON. */
export interface CredentialRecord extends Omit<Credential, "id" | "label" | "holders" | "quarantine"> {
	/** Doubtful refusals in a row. */
	doubts: number;
	/** Of the last hold that was given. */
	fence: number;
	holds: HoldRecord[];
	quarantine: QuarantinedSecret[];
}

/** Sealed under the credential's own key. */
export interface QuarantinedSecret extends Quarantined {
	/** Tells it apart: its seal is bound to it. */
	id: string;
	/** Base64: the record is JSON. */
	sealed: string;
}

export interface CredentialRow {
	id: string;
	label: string;
	record: CredentialRecord;
	sealed: Uint8Array;
}

const DOUBTS_TO_DEATH = 3;
/** Of more than these only the newest can be alive. */
const MAX_QUARANTINED = 5;

/** What may be done to a credential, as plain data: it travels to the thread that writes. */
export type CredentialStep =
	| { type: "add"; row: CredentialRow }
	| { type: "acquire"; holder: string; ttlMs: number; evenDead: boolean }
	| { type: "look"; holder: string; fence: number }
	| { type: "renew"; holder: string; fence: number; ttlMs: number; exact: boolean }
	| { type: "release"; holder: string; fence: number }
	| {
			type: "save";
			holder: string;
			fence: number;
			version: number;
			sealed: Uint8Array;
			fingerprint: string;
			/** Which of those that were put aside this is. */
			promoted: string | null;
	  }
	| ({ type: "judge"; id: string; fence: number } & Finding)
	| {
			type: "quarantine";
			id: string;
			/** The version that its holder had seen. */
			version: number;
			reason: string;
			/** Null when nobody could see what it is. */
			secret: QuarantinedSecret | null;
	  }
	| { type: "free" }
	| { type: "remove"; force: boolean };

/** Why nothing was done. */
export type CredentialRefusal = "unknown" | "taken" | "held" | "dead" | "quarantined" | "lost" | "changed";

/** The row as it is from now on (null: none), or why it stays as it was. */
export type CredentialDecision = { row: CredentialRow | null } | { refused: CredentialRefusal };

/** `now` is the database's clock: machines disagree about the time. */
export function decide(row: CredentialRow | null, step: CredentialStep, now: number): CredentialDecision {
	if (step.type === "add") return row ? { refused: "taken" } : { row: step.row };
	if (!row) return { refused: "unknown" };
	// Under the same label there may be another by now.
	if ("id" in step && step.id !== row.id) return { refused: "lost" };
	switch (step.type) {
		case "acquire":
			return acquire(row, step, now);
		case "look":
			return changeHold(row, step, (hold) => [hold]);
		case "renew":
			return changeHold(row, step, (hold) => [{ ...hold, expiresAt: extended(hold, step, now) }]);
		case "release":
			return changeHold(row, step, () => []);
		case "save":
			return save(row, step, now);
		case "judge":
			return judge(row, step, now);
		case "quarantine":
			return quarantine(row, step);
		case "free":
			return free(row, now);
		case "remove":
			return !step.force && living(row, now).length > 0 ? { refused: "held" } : { row: null };
	}
}

/** As somebody sees it who asks now: without the holds that are over. */
export function asOf(row: CredentialRow, now: number): CredentialRow {
	return { ...row, record: { ...row.record, holds: living(row, now) } };
}

function living({ record }: CredentialRow, now: number): HoldRecord[] {
	return record.holds.filter((hold) => hold.expiresAt > now);
}

function acquire(
	row: CredentialRow,
	{ holder, ttlMs, evenDead }: Extract<CredentialStep, { type: "acquire" }>,
	now: number,
): CredentialDecision {
	const { record } = row;
	const { state } = record;
	if ((state === "dead" || state === "quarantined") && !evenDead) return { refused: state };
	// Expired holds end here and not before: until somebody takes its place, a late holder may still renew.
	const others = living(row, now).filter((hold) => hold.holder !== holder);
	if (others.length >= record.capacity) return { refused: "held" };
	const fence = record.fence + 1;
	const holds = [...others, { holder, fence, expiresAt: now + ttlMs }];
	return { row: { ...row, record: { ...record, fence, holds, lastUsedAt: now } } };
}

/** A refresh makes a hold long; the heartbeat that comes meanwhile must not make it short again. */
function extended(
	hold: HoldRecord,
	{ ttlMs, exact }: { ttlMs: number; exact: boolean },
	now: number,
): number {
	return exact ? now + ttlMs : Math.max(hold.expiresAt, now + ttlMs);
}

function changeHold(
	row: CredentialRow,
	{ holder, fence }: { holder: string; fence: number },
	change: (hold: HoldRecord) => HoldRecord[],
): CredentialDecision {
	const { record } = row;
	if (!isHeld(row, holder, fence)) return { refused: "lost" };
	const holds = record.holds.flatMap((hold) => (hold.fence === fence ? change(hold) : [hold]));
	return { row: { ...row, record: { ...record, holds } } };
}

/** Whoever has lost the hold may never write again; whoever holds it must have seen the version that it replaces. */
function save(
	row: CredentialRow,
	step: Extract<CredentialStep, { type: "save" }>,
	now: number,
): CredentialDecision {
	const { record } = row;
	if (!isHeld(row, step.holder, step.fence)) return { refused: "lost" };
	if (record.version !== step.version) return { refused: "changed" };
	const { fingerprint } = step;
	// Whoever was given new tokens for the stored ones has shown that those were good.
	const state = record.state === "quarantined" ? "unknown" : record.state;
	const quarantine = record.quarantine.filter(({ id }) => id !== step.promoted);
	const saved = { ...record, state, quarantine, version: record.version + 1, fingerprint, updatedAt: now };
	return { row: { ...row, record: saved, sealed: step.sealed } };
}

/**
 * Puts aside what may not be stored in its place: its holder lost the hold, or could not see it. As long as nobody has stored anything newer, what is stored
 * may be spent, and what was put aside the only login that lives: nobody uses either before somebody has looked.
 */
function quarantine(
	row: CredentialRow,
	{ version, reason, secret }: Extract<CredentialStep, { type: "quarantine" }>,
): CredentialDecision {
	const { record } = row;
	const kept = record.quarantine.filter(({ fingerprint }) => fingerprint !== secret?.fingerprint);
	const all = secret === null ? record.quarantine : [...kept, secret];
	const aside = { ...record, quarantine: all.slice(-MAX_QUARANTINED) };
	if (record.version !== version) return { row: { ...row, record: aside } };
	return { row: { ...row, record: { ...aside, state: "quarantined", reason } } };
}

/** What is stored may be used again, and what was put aside is forgotten. */
function free(row: CredentialRow, now: number): CredentialDecision {
	if (living(row, now).length > 0) return { refused: "held" };
	const { record } = row;
	return { row: { ...row, record: { ...record, state: "unknown", reason: null, quarantine: [] } } };
}

/** A verdict of an older hold is no news: since then another may have saved new tokens. */
function judge(
	row: CredentialRow,
	{ fence, state, reason, isDoubtful }: Extract<CredentialStep, { type: "judge" }>,
	now: number,
): CredentialDecision {
	const { record } = row;
	if (record.fence !== fence && record.capacity === 1) return { refused: "lost" };
	const doubts = isDoubtful ? record.doubts + 1 : 0;
	const said = doubts >= DOUBTS_TO_DEATH ? "dead" : state;
	// Only a clear answer frees what was put aside; then the stored login is the one that lives.
	const isOpen = record.state === "quarantined" && (said === "unknown" || said === "limited");
	const judged = { ...(isOpen ? {} : { state: said, reason }), doubts, lastVerifiedAt: now };
	const quarantine = said === "alive" ? [] : record.quarantine;
	return { row: { ...row, record: { ...record, ...judged, quarantine } } };
}

function isHeld({ record }: CredentialRow, holder: string, fence: number): boolean {
	return record.holds.some((hold) => hold.holder === holder && hold.fence === fence);
}
