import { UsageError } from "../errors.ts";
import { learnSecret } from "../log.ts";
import type { Credential, Finding } from "../model/credential.ts";
import { newId } from "../model/id.ts";
import type {
	CredentialRecord,
	CredentialRefusal,
	CredentialRow,
	CredentialStep,
	QuarantinedSecret,
} from "./credential-steps.ts";
import type { Database } from "./database.ts";
import type { SealingKey } from "./vault/seal.ts";
import type { SeenVersions } from "./vault/seen.ts";
import type { Vault } from "./vault/vault.ts";

export interface NewCredential extends Pick<Credential, "label" | "kind" | "endpoint" | "capacity"> {
	secret: string;
	login?: Credential["login"];
	planted?: Credential["planted"];
	pool?: Credential["pool"];
}

/** Names a hold to whoever may look it up: a refresh is finished by another process than its holder's. */
export interface Claim {
	label: string;
	holder: string;
	fence: number;
}

/** A credential in the hands of one holder, with its secret as it was when it was taken. */
export interface Hold {
	readonly credential: Credential;
	readonly holder: string;
	readonly fence: number;
	readonly secret: string;
}

/** Stored provider logins. Secrets rest sealed, each under a key of its own, and leave only to who holds them. */
export class Credentials {
	readonly #database: Database;
	readonly #vault: Vault;
	readonly #seen: SeenVersions;

	constructor(database: Database, vault: Vault, seen: SeenVersions) {
		this.#database = database;
		this.#vault = vault;
		this.#seen = seen;
	}

	async add({
		label,
		secret,
		login = null,
		planted = null,
		pool = null,
		...rest
	}: NewCredential): Promise<Credential> {
		learnSecret(secret);
		const id = newId("cr");
		const key = await this.#vault.keyOf(keyName(id));
		const at = Date.now();
		const record: CredentialRecord = {
			...rest,
			...{ login, planted, pool, state: "unknown", reason: null, doubts: 0, version: 1, fence: 0, holds: [] },
			quarantine: [],
			...{ createdAt: at, updatedAt: at, lastUsedAt: null, lastVerifiedAt: null },
			fingerprint: fingerprintOf(key, secret),
		};
		const sealed = key.seal(secret, contextOf(id, 1));
		const made = await this.#change(label, { type: "add", row: { id, label, record, sealed } });
		if (made === "taken") {
			throw new UsageError(
				`there is a credential ${label} already: delete it, or take another label`,
				"credential_exists",
			);
		}
		return toCredential((made as { row: CredentialRow }).row);
	}

	async list(): Promise<Credential[]> {
		return (await this.#database.credentials()).map(toCredential);
	}

	async find(label: string): Promise<Credential | null> {
		return (await this.list()).find((credential) => credential.label === label) ?? null;
	}

	/** False when there is none. One that is held is refused unless forced; its holder then can save nothing more. */
	async remove(label: string, options: { force: boolean }): Promise<boolean> {
		const { id } = (await this.find(label)) ?? {};
		const removed = await this.#change(label, { type: "remove", ...options });
		if (removed === "held") {
			throw new UsageError(
				`the credential ${label} is in use: wait for its holders, or force it`,
				"credential_held",
			);
		}
		if (id !== undefined) await this.#seen.forget(id);
		return removed !== "unknown";
	}

	/** Takes it for `ttlMs`; renew it before they are over. One that is dead is given only to who wants to look at it. */
	async acquire(
		label: string,
		holder: string,
		ttlMs: number,
		{ evenDead = false }: { evenDead?: boolean } = {},
	): Promise<Hold> {
		const taken = await this.#change(label, { type: "acquire", holder, ttlMs, evenDead });
		if (typeof taken === "string") throw new UsageError(...refusalOf(label, taken));
		const { fence } = taken.row.record;
		try {
			return await this.#open(taken.row, { label, holder, fence });
		} catch (error) {
			await this.#change(label, { type: "release", holder, fence });
			throw error;
		}
	}

	/** The hold with what is stored now; null when it is another's. */
	async look({ label, holder, fence }: Claim): Promise<Hold | null> {
		const found = await this.#change(label, { type: "look", holder, fence });
		return typeof found === "string" ? null : await this.#open(found.row, { label, holder, fence });
	}

	/** Notes what its provider says of it. Whoever no longer holds it has nothing to say. */
	async judge({ credential, fence }: Pick<Hold, "credential" | "fence">, finding: Finding): Promise<void> {
		await this.#change(credential.label, { type: "judge", id: credential.id, fence, ...finding });
	}

	/** False when another has taken it: then the caller must stop using it. It never ends sooner for it, unless `exact`. */
	async renew(
		{ credential, holder, fence }: Hold,
		ttlMs: number,
		{ exact = false }: { exact?: boolean } = {},
	): Promise<boolean> {
		const step: CredentialStep = { type: "renew", holder, fence, ttlMs, exact };
		return typeof (await this.#change(credential.label, step)) !== "string";
	}

	async release({ credential, holder, fence }: Hold): Promise<void> {
		await this.#change(credential.label, { type: "release", holder, fence });
	}

	/**
	 * Replaces the secret that the hold has seen, and answers the hold with the new one. Null when the hold was lost:
	 * what is stored then is another's, and stays.
	 */
	async save(hold: Hold, secret: string): Promise<Hold | null> {
		return await this.#save(hold, secret, null);
	}

	/** Stores what was put aside last, in the place of what its holder found dead. Null when there is nothing, or the hold was lost. */
	async promote(hold: Hold): Promise<Hold | null> {
		const { id, label } = hold.credential;
		const row = (await this.#database.credentials()).find((one) => one.id === id);
		const newest = row?.record.quarantine.at(-1);
		if (newest === undefined) return null;
		const key = await this.#vault.keyOf(keyName(id));
		const secret = key.open(Buffer.from(newest.sealed, "base64"), asideContextOf(id, newest.id));
		const { holder, fence } = hold;
		const current = await this.look({ label, holder, fence });
		return current === null ? null : await this.#save(current, secret.toString("utf8"), newest.id);
	}

	async #save(hold: Hold, secret: string, promoted: string | null): Promise<Hold | null> {
		const { credential, holder, fence } = hold;
		const { id, label, version } = credential;
		const key = await this.#vault.keyOf(keyName(id));
		const sealed = key.seal(secret, contextOf(id, version + 1));
		const fingerprint = fingerprintOf(key, secret);
		const saved = await this.#change(label, {
			...{ type: "save", holder, fence, version, sealed, fingerprint, promoted },
		});
		if (typeof saved === "string") return null;
		await this.#seen.check(id, version + 1);
		return { ...hold, credential: toCredential(saved.row), secret };
	}

	/**
	 * Keeps apart what may no longer be saved: whoever holds the credential now has stored tokens of their own. Null when nobody could see
	 * whether there is anything newer than what is stored.
	 */
	async quarantine(hold: Hold, secret: string | null, reason: string): Promise<void> {
		const { id, label, version } = hold.credential;
		const aside = secret === null ? null : await this.#aside(hold, secret, reason);
		await this.#change(label, { type: "quarantine", id, version, reason, secret: aside });
	}

	async #aside(
		{ credential: { id }, fence }: Hold,
		secret: string,
		reason: string,
	): Promise<QuarantinedSecret> {
		const key = await this.#vault.keyOf(keyName(id));
		const name = newId("qu");
		const sealed = key.seal(secret, asideContextOf(id, name)).toString("base64");
		const fingerprint = fingerprintOf(key, secret);
		return { id: name, fence, at: Date.now(), reason, sealed, fingerprint };
	}

	/** What is stored may be used again and what was put aside is forgotten. False when there is no such credential. */
	async free(label: string): Promise<boolean> {
		const freed = await this.#change(label, { type: "free" });
		if (freed === "held") throw new UsageError(...refusalOf(label, freed));
		return freed !== "unknown";
	}

	async #open(row: CredentialRow, { holder, fence }: Claim): Promise<Hold> {
		const { id, record, sealed } = row;
		const key = await this.#vault.keyOf(keyName(id));
		const secret = key.open(sealed, contextOf(id, record.version)).toString("utf8");
		await this.#seen.check(id, record.version);
		learnSecret(secret);
		return { credential: toCredential(row), holder, fence, secret };
	}

	async #change(label: string, step: CredentialStep): Promise<{ row: CredentialRow } | CredentialRefusal> {
		const decision = await this.#database.changeCredential(label, step);
		if ("refused" in decision) return decision.refused;
		// What was removed is nobody's any more; nobody reads it.
		return { row: decision.row! };
	}
}

/** Bound to its place and its version: neither another credential's secret nor an older one opens here. */
function contextOf(id: string, version: number): string {
	return `credential ${id} ${version}`;
}

function asideContextOf(id: string, name: string): string {
	return `credential ${id} aside ${name}`;
}

export function keyName(id: string): string {
	return `credential ${id}`;
}

function fingerprintOf(key: SealingKey, secret: string): string {
	return key.fingerprint(secret).slice(0, 12);
}

function refusalOf(label: string, refused: CredentialRefusal): [string, string] {
	if (refused === "unknown") return [`there is no credential ${label}`, "unknown_credential"];
	if (refused === "dead")
		return [`the credential ${label} is dead: its provider refused it`, "credential_dead"];
	if (refused === "quarantined")
		return [
			`the credential ${label} is quarantined: a newer login could not be stored. Verify it, or free it`,
			"credential_quarantined",
		];
	return [`the credential ${label} is in use by as many as it can take`, "credential_held"];
}

function toCredential({ id, label, record }: CredentialRow): Credential {
	const { fence, holds, doubts, quarantine, ...rest } = record;
	const aside = quarantine.map(({ fence, at, reason, fingerprint }) => ({ fence, at, reason, fingerprint }));
	return {
		id,
		label,
		...rest,
		quarantine: aside,
		holders: holds.map(({ holder, expiresAt }) => ({ holder, expiresAt })),
	};
}
