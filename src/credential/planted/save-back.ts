import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { messageOf, UsageError } from "../../errors.ts";
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
	#isSaved = true;
	/** Why nobody can say whether the newest was seen, until the store knows of it. */
	#doubt: string | null = null;
	#looking: Promise<void> = Promise.resolve();
	/** For the last time. */
	#isLooking = false;

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

	/**
	 * The last look, when nothing writes there any more: repeated while auth.json cannot be read and the signal does not fire. When it was
	 * not seen whole in the end, what is stored may be spent: then nobody gets it before somebody has looked, and this throws.
	 */
	lookAtLast(signal: AbortSignal): Promise<void> {
		this.#isLooking = true;
		const look = () =>
			this.#lookAtLast(signal).finally(() => {
				this.#isLooking = false;
			});
		this.#looking = this.#looking.catch(() => {}).then(look);
		return this.#looking;
	}

	/** Whether everything that was seen is stored, or put aside, and a last look that was begun is over. */
	get isStored(): boolean {
		return this.#isSaved && this.#doubt === null && !this.#isLooking;
	}

	get #provider(): string {
		return this.#hold.credential.planted!.provider;
	}

	async #look(): Promise<void> {
		try {
			this.#notice(await this.#readWhole());
		} finally {
			await this.#settle();
		}
	}

	async #lookAtLast(signal: AbortSignal): Promise<void> {
		try {
			const entry = await this.#readPatiently(signal);
			if (entry === null)
				throw new UsageError("the login in the box is gone, or was being written", "login_unreadable");
			this.#notice(entry);
		} catch (error) {
			this.#doubt = `what the agent was given last could not be read: ${messageOf(error)}`;
			throw error;
		} finally {
			await this.#settle();
		}
	}

	/** A box that does not answer now may answer in a moment. */
	async #readPatiently(signal: AbortSignal): Promise<OauthEntry | null> {
		for (;;) {
			try {
				return await this.#readWhole();
			} catch (error) {
				if (signal.aborted) throw error;
			}
			await delay(this.#settleMs);
		}
	}

	/** Tells the store what it does not know yet. */
	async #settle(): Promise<void> {
		if (!this.#isSaved) await this.#store();
		if (this.#doubt !== null) await this.#credentials.quarantine(this.#hold, null, this.#doubt);
		this.#doubt = null;
	}

	/** Tokens of another account are nobody's rotation: somebody in the box has written them. */
	#notice(entry: OauthEntry | null): void {
		if (entry === null || isDeepStrictEqual(entry, this.#newest)) return;
		if (entry.accountId !== this.#newest.accountId)
			throw new UsageError("the login in the box is another account's: it is not stored", "login_replaced");
		this.#newest = entry;
		this.#isSaved = false;
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
			this.#isSaved = true;
			throw new UsageError(
				`the hold on ${this.#hold.credential.label} was lost to another`,
				"credential_lost",
			);
		}
		this.#hold = saved;
		// Where another version was found, the tokens go on top of it; where that is our own, this has been done already.
		if (saved.secret !== secret) return await this.#store();
		this.#isSaved = true;
	}

	/** Of a save whose answer got lost on the way, this finds its work. */
	async #lookAgain(): Promise<Hold | null> {
		const { credential, holder, fence } = this.#hold;
		return await this.#credentials.look({ label: credential.label, holder, fence });
	}
}

const LOST = "it was refreshed by a holder that had lost it meanwhile";
