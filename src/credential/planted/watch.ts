import { messageOf } from "../../errors.ts";
import type { SaveBack } from "./save-back.ts";

/** What a worker takes along that is killed: no more than was refreshed since the last look. */
const LOOK_EVERY_MS = 2_000;

export interface LoginWatch extends AsyncDisposable {
	/** Fires when the login turns out to be another's by now. */
	readonly lost: AbortSignal;
}

/**
 * Looks every two seconds whether the agent has new tokens. What goes wrong in one look is said once, and the next one comes; the hold
 * has a timer of its own.
 */
export function watchLogin(saveBack: SaveBack, say: (text: string) => void): LoginWatch {
	const lost = new AbortController();
	let looking: Promise<void> | null = null;
	let trouble = "";
	const look = async () => {
		try {
			await saveBack.look();
			trouble = "";
		} catch (error) {
			if ((error as { code?: unknown }).code === "credential_lost") lost.abort();
			if (trouble !== messageOf(error))
				say(`the login in the box could not be saved back: ${messageOf(error)}`);
			trouble = messageOf(error);
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
