import { UsageError } from "../errors.ts";
import type { Credential } from "../model/credential.ts";
import { newId } from "../model/id.ts";
import type {
	CredentialRecord,
	CredentialRefusal,
	CredentialRow,
	CredentialStep,
} from "./credential-steps.ts";
import type { Database } from "./database.ts";
import type { SealingKey } from "./vault/seal.ts";
import type { Vault } from "./vault/vault.ts";

export interface NewCredential extends Pick<Credential, "label" | "kind" | "endpoint" | "capacity"> {
	secret: string;
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

	constructor(database: Database, vault: Vault) {
		this.#database = database;
		this.#vault = vault;
	}

	async add({ label, secret, ...rest }: NewCredential): Promise<Credential> {
		const id = newId("cr");
		const key = await this.#vault.keyOf(keyName(id));
		const at = Date.now();
		const record: CredentialRecord = {
			...rest,
			...{ state: "unknown", version: 1, fence: 0, holds: [] },
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
		const removed = await this.#change(label, { type: "remove", ...options });
		if (removed === "held") {
			throw new UsageError(
				`the credential ${label} is in use: wait for its holders, or force it`,
				"credential_held",
			);
		}
		return removed !== "unknown";
	}

	/** Takes it for `ttlMs`; renew it before they are over. */
	async acquire(label: string, holder: string, ttlMs: number): Promise<Hold> {
		const taken = await this.#change(label, { type: "acquire", holder, ttlMs });
		if (typeof taken === "string") throw new UsageError(...refusalOf(label, taken));
		const { id, record, sealed } = taken.row;
		try {
			const secret = (await this.#vault.keyOf(keyName(id))).open(sealed, contextOf(id, record.version));
			return {
				credential: toCredential(taken.row),
				holder,
				fence: record.fence,
				secret: secret.toString("utf8"),
			};
		} catch (error) {
			await this.#change(label, { type: "release", holder, fence: record.fence });
			throw error;
		}
	}

	/** False when another has taken it: then the caller must stop using it. */
	async renew({ credential, holder, fence }: Hold, ttlMs: number): Promise<boolean> {
		return (
			typeof (await this.#change(credential.label, { type: "renew", holder, fence, ttlMs })) !== "string"
		);
	}

	async release({ credential, holder, fence }: Hold): Promise<void> {
		await this.#change(credential.label, { type: "release", holder, fence });
	}

	/**
	 * Replaces the secret that the hold has seen, and answers the hold with the new one. Null when the hold was lost:
	 * what is stored then is another's, and stays.
	 */
	async save(hold: Hold, secret: string): Promise<Hold | null> {
		const { credential, holder, fence } = hold;
		const { id, label, version } = credential;
		const key = await this.#vault.keyOf(keyName(id));
		const sealed = key.seal(secret, contextOf(id, version + 1));
		const fingerprint = fingerprintOf(key, secret);
		const saved = await this.#change(label, { type: "save", holder, fence, version, sealed, fingerprint });
		return typeof saved === "string" ? null : { ...hold, credential: toCredential(saved.row), secret };
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
	return [`the credential ${label} is in use by as many as it can take`, "credential_held"];
}

function toCredential({ id, label, record }: CredentialRow): Credential {
	const { fence, holds, ...rest } = record;
	return { id, label, ...rest, holders: holds.map(({ holder, expiresAt }) => ({ holder, expiresAt })) };
}
