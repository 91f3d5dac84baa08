import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { UsageError } from "../../errors.ts";
import type { Credentials, Hold } from "../../store/credentials.ts";
import { type OauthEntry, readLogin, tokensOf, wholeEntry, withTokens, writeLogin } from "../login.ts";

/** The agent writes auth.json in place: only what reads the same after so long is whole. */
const SETTLE_MS = 200;
/** How often one look tries to read it whole. */
const READS = 5;

/** Reads the auth.json that lies with the agent; null when there is none. */
export type ReadAuth = () => Promise<Buffer | null>;

/**
 * Brings the tokens that an agent was given for its login back into the store. The newest stay here until they are stored; a store that
 * is away loses none. Never writes where the agent lives.
 */
export class SaveBack {
	readonly #credentials: Credentials;
	readonly #readAuth: ReadAuth;
	readonly #settleMs: number;
	/** With what is stored now. */
	#hold: Hold;
	/** The newest that was seen. */
	#newest: OauthEntry;
	#isStored = true;
	#looking: Promise<void> = Promise.resolve();

	constructor(
		credentials: Credentials,
		hold: Hold,
		readAuth: ReadAuth,
		{ settleMs = SETTLE_MS }: { settleMs?: number } = {},
	) {
		this.#credentials = credentials;
		this.#hold = hold;
		this.#readAuth = readAuth;
		this.#settleMs = settleMs;
		this.#newest = tokensOf(readLogin(hold.secret), this.#provider);
	}

	/**
	 * Stores what is new, and what an earlier look could not store. Throws when auth.json or the store cannot be reached (nothing is lost
	 * then), and a `credential_lost` when the credential is another's by now: then what was new is in quarantine.
	 */
	look(): Promise<void> {
		// One after the other: two that save at once would each refuse the other's version.
		this.#looking = this.#looking.catch(() => {}).then(() => this.#look());
		return this.#looking;
	}

	/** Whether everything that was seen is stored, or put aside. */
	get isStored(): boolean {
		return this.#isStored;
	}

	get #provider(): string {
		return this.#hold.credential.planted!.provider;
	}

	async #look(): Promise<void> {
		try {
			this.#notice(await this.#readWhole());
		} finally {
			if (!this.#isStored) await this.#store();
		}
	}

	/** Tokens of another account are nobody's rotation: somebody in the box has written them. */
	#notice(entry: OauthEntry | null): void {
		if (entry === null || isDeepStrictEqual(entry, this.#newest)) return;
		if (entry.accountId !== this.#newest.accountId)
			throw new UsageError("the login in the box is another account's: it is not stored", "login_replaced");
		this.#newest = entry;
		this.#isStored = false;
	}

	/** Null while it is half-written, logged out, or gone: none of that is ever stored. */
	async #readWhole(): Promise<OauthEntry | null> {
		for (let tries = 0, before = await this.#readAuth(); tries < READS && before !== null; tries += 1) {
			await delay(this.#settleMs);
			const now = await this.#readAuth();
			if (now?.equals(before)) return wholeEntry(now, this.#provider);
			before = now;
		}
		return null;
	}

	async #store(): Promise<void> {
		const files = withTokens(readLogin(this.#hold.secret), this.#provider, this.#newest);
		const secret = writeLogin(files);
		const saved = (await this.#credentials.save(this.#hold, secret)) ?? (await this.#lookAgain());
		if (saved === null) {
			await this.#credentials.quarantine(this.#hold, secret, LOST);
			this.#isStored = true;
			throw new UsageError(
				`the hold on ${this.#hold.credential.label} was lost to another`,
				"credential_lost",
			);
		}
		this.#hold = saved;
		// Where another version was found, the tokens go on top of it; where that is our own, this has been done already.
		if (saved.secret !== secret) return await this.#store();
		this.#isStored = true;
	}

	/** Of a save whose answer got lost on the way, this finds its work. */
	async #lookAgain(): Promise<Hold | null> {
		const { credential, holder, fence } = this.#hold;
		return await this.#credentials.look({ label: credential.label, holder, fence });
	}
}

const LOST = "it was refreshed by a holder that had lost it meanwhile";
