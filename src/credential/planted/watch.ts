import { messageOf } from "../../errors.ts";
import type { SaveBack } from "./save-back.ts";

const LOOK_EVERY_MS = 10_000;

export interface LoginWatch extends AsyncDisposable {
	/** Fires when the login turns out to be another's by now. */
	readonly lost: AbortSignal;
}

/**
 * Looks every ten seconds whether the agent has new tokens. What goes wrong in one look is said, and the next one comes; the hold has a
 * timer of its own.
 */
export function watchLogin(saveBack: SaveBack, say: (text: string) => void): LoginWatch {
	const lost = new AbortController();
	let looking: Promise<void> | null = null;
	const look = async () => {
		try {
			await saveBack.look();
		} catch (error) {
			if ((error as { code?: unknown }).code === "credential_lost") lost.abort();
			say(`the login in the box could not be saved back: ${messageOf(error)}`);
		}
		looking = null;
	};
	const timer = setInterval(() => {
		looking ??= look();
	}, LOOK_EVERY_MS);
	return {
		lost: lost.signal,
		async [Symbol.asyncDispose]() {
			clearInterval(timer);
			await looking;
		},
	};
}
