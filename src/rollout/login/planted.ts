import { setTimeout as delay } from "node:timers/promises";
import type { HeldCredential } from "../../credential/hold.ts";
import { AUTH_FILE, readLogin, wholeEntry } from "../../credential/login.ts";
import { SaveBack } from "../../credential/planted/save-back.ts";
import { type LoginWatch, watchLogin } from "../../credential/planted/watch.ts";
import { SAVE_PATIENCE_MS } from "../../credential/refresh.ts";
import { messageOf, RolloutError } from "../../errors.ts";
import type { PlantedTerms } from "../../model/credential.ts";
import type { Sandbox } from "../../sandbox/sandbox.ts";
import type { Credentials } from "../../store/credentials.ts";
import { inTime, unresponsiveBox } from "../clock.ts";
import { inOrder } from "./steps.ts";

const MAX_AUTH_BYTES = 1024 * 1024;
const READ_LIMIT_MS = 2_000;
/** Of the time for saving it back, for reading it; the rest is the store's. */
const LAST_LOOK_MS = 6_000;
/** All of them fit into the teardown clock, and the last two have their share whatever the first ones take. */
const LIMITS = { endS: 8, watchS: 4, saveS: 10, releaseS: 4 };
const SAVE_AGAIN_MS = 500;

export interface PlantedOptions {
	credentials: Credentials;
	held: HeldCredential;
	/** Another model of the provider's than the login's own. */
	model?: string | undefined;
	say: (text: string) => void;
	/** For what comes to light when nobody listens to `say` any more. */
	warn: (text: string) => void;
}

/**
 * A login that only the agent can speak for, in our hands. It lies in one box while the agent works, is watched there, and comes back with
 * the newest tokens before anybody else may have it.
 */
export class PlantedLogin implements AsyncDisposable {
	readonly terms: PlantedTerms;
	readonly #options: PlantedOptions;
	readonly #lost = new AbortController();
	#there: { box: Sandbox; saveBack: SaveBack; watch: LoginWatch } | null = null;
	#takingBack: Promise<void> | null = null;
	#givingUp: Promise<void> = Promise.resolve();

	constructor(options: PlantedOptions) {
		const { held } = options;
		this.#options = options;
		this.terms = held.hold.credential.planted!;
		held.lost.addEventListener("abort", () => this.#lost.abort());
	}

	/** `provider/model`, as the agent calls it. */
	get model(): string {
		return `${this.terms.provider}/${this.#options.model ?? this.terms.model}`;
	}

	/** Fires when the login is another's by now, or nobody can say that it is not: its agent has to stop. */
	get lost(): AbortSignal {
		return this.#lost.signal;
	}

	/** Lays it into the agent's home, where nobody else has anything yet. From now on it is watched. */
	async plant(box: Sandbox): Promise<void> {
		const { credentials, held, say } = this.#options;
		const files = [...readLogin(held.hold.secret)];
		await box.writeFiles(files.map(([path, data]) => ({ path: `${box.home}/${path}`, data })));
		const { exitCode } = await box.exec(["chmod", "600", ...files.map(([path]) => `${box.home}/${path}`)]);
		if (exitCode !== 0)
			throw new RolloutError("sandbox", "staging_failed", "the login could not be closed off");
		const saveBack = new SaveBack(credentials, held.hold, () => readInTime(box));
		const watch = watchLogin(saveBack, say);
		watch.lost.addEventListener("abort", () => this.#lost.abort());
		this.#there = { box, saveBack, watch };
	}

	/** Whoever writes anything down knows the tokens that lie in the box now. */
	async learn(): Promise<void> {
		if (this.#there === null) return;
		const auth = await readInTime(this.#there.box).catch(() => null);
		if (auth !== null) wholeEntry(auth, this.terms.provider);
	}

	/** Ends everything in the box, saves the login back and gives it up, in this order. Harmless to repeat. */
	takeBack(): Promise<void> {
		this.#takingBack ??= this.#takeBack();
		return this.#takingBack;
	}

	/** The same, and resolves no sooner than the newest login is stored, however long the store is away. */
	async takeBackAtLast(): Promise<void> {
		await this.takeBack();
		await this.#givingUp;
	}

	[Symbol.asyncDispose](): Promise<void> {
		return this.takeBack();
	}

	async #takeBack(): Promise<void> {
		const { held, say, warn } = this.#options;
		const there = this.#there;
		const release = {
			name: "giving the login back",
			limitS: LIMITS.releaseS,
			act: () => held[Symbol.asyncDispose](),
		};
		if (there === null) return await inOrder([release], say);
		const { box, saveBack, watch } = there;
		const steps = [
			// Its own last write may be the newest token: nothing is read before nothing can write.
			{ name: "ending what uses the login", limitS: LIMITS.endS, act: () => box.killAll() },
			{
				name: "ending the watch over the login",
				limitS: LIMITS.watchS,
				act: () => watch[Symbol.asyncDispose](),
			},
			{
				name: "saving the login back",
				limitS: LIMITS.saveS,
				act: () => saveBack.lookAtLast(AbortSignal.timeout(LAST_LOOK_MS)),
			},
		];
		await inOrder(steps, say);
		// Only when it is stored may the next holder have it: before that it would get tokens that are spent.
		if (saveBack.isStored) return await inOrder([release], say);
		say("the newest login is not stored yet: it is kept in memory and tried again");
		this.#givingUp = saveAtLast(saveBack, warn).then(() => inOrder([release], warn));
	}
}

/** A box that hangs is one that does not answer. */
function readInTime(box: Sandbox): Promise<Buffer | null> {
	const late = () => unresponsiveBox("reading the login", READ_LIMIT_MS / 1000);
	return inTime(readAuth(box), { ms: READ_LIMIT_MS, late });
}

/** Null when there is none. A link or a folder in its place is nobody's login. */
async function readAuth(box: Sandbox): Promise<Buffer | null> {
	try {
		return await box.readFile(`${box.home}/${AUTH_FILE}`, { maxBytes: MAX_AUTH_BYTES });
	} catch (error) {
		if (error instanceof RolloutError && error.code === "file_not_found") return null;
		throw error;
	}
}

async function saveAtLast(saveBack: SaveBack, warn: (text: string) => void): Promise<void> {
	const until = performance.now() + SAVE_PATIENCE_MS;
	let trouble = "";
	while (!saveBack.isStored && performance.now() < until) {
		await delay(SAVE_AGAIN_MS);
		await saveBack.look().catch((error) => {
			trouble = messageOf(error);
		});
	}
	if (!saveBack.isStored) warn(`the newest login is lost: ${trouble}`);
}
