import { RolloutError } from "../errors.ts";
import type { AccessTokens } from "../model/endpoint.ts";
import type { Credentials } from "../store/credentials.ts";
import type { HeldCredential } from "./hold.ts";
import { tokensIn } from "./refresh.ts";
import type { Refresher } from "./refresher/refresher.ts";
import type { RefreshTrouble } from "./refresher/wire.ts";

/** A token that ends so soon is not worth starting a call with. */
const SOON_MS = 60_000;

const CODES: Record<RefreshTrouble, { code: string; retryable: boolean }> = {
	dead: { code: "credential_dead", retryable: false },
	limited: { code: "rate_limited", retryable: true },
	lost: { code: "credential_lost", retryable: true },
	outage: { code: "provider_unreachable", retryable: true },
};

/** The tokens of a login that this process holds: always the stored ones, refreshed on this side of every box. */
export class LoginTokens implements AccessTokens, AsyncDisposable {
	readonly #credentials: Credentials;
	readonly #held: HeldCredential;
	readonly #refresher: Refresher;
	#current: { access: string; expires: number };
	#soonMs = SOON_MS;
	#refreshing: Promise<void> | null = null;

	constructor(credentials: Credentials, held: HeldCredential, refresher: Refresher) {
		this.#credentials = credentials;
		this.#held = held;
		this.#refresher = refresher;
		this.#current = tokensIn(held.hold);
	}

	async fresh(refused: string | null = null): Promise<string> {
		const { access, expires } = this.#current;
		const isOver =
			access === "" || access === refused || (expires > 0 && expires < Date.now() + this.#soonMs);
		if (isOver) {
			// Of many calls that find the token stale, one has it refreshed.
			this.#refreshing ??= this.#refresh(access).finally(() => {
				this.#refreshing = null;
			});
			await this.#refreshing;
		}
		if (this.#held.lost.aborted) throw failure("lost", "the hold on the login was lost");
		return this.#current.access;
	}

	/** A refresh that is under way ends before the hold does. */
	async [Symbol.asyncDispose](): Promise<void> {
		await this.#refreshing?.catch(() => {});
	}

	async #refresh(stale: string): Promise<void> {
		const { credential, holder, fence } = this.#held.hold;
		const claim = { label: credential.label, holder, fence };
		const trouble = await this.#refresher.refresh({ ...claim, stale, ttlMs: this.#held.ttlMs });
		if (trouble !== null) throw failure(trouble.type, trouble.message);
		const hold = await this.#credentials.look(claim);
		if (hold === null) throw failure("lost", "the hold on the login was lost");
		this.#current = tokensIn(hold);
		// Some live no longer than a minute: half of that is still worth using.
		this.#soonMs = Math.min(SOON_MS, Math.max(0, (this.#current.expires - Date.now()) / 2));
	}
}

function failure(trouble: RefreshTrouble, message: string): RolloutError {
	const { code, retryable } = CODES[trouble];
	return new RolloutError("provider", code, message, { retryable });
}
