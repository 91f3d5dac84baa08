import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { RolloutError } from "../../errors.ts";
import { lookupOpen } from "./addresses.ts";

/** Long enough for the other side of the world; a person waits no longer for bad news. */
const LIMIT_MS = 2_500;
/** Between the looks at an endpoint that is not there: an engine that is being restarted may come back. */
const PAUSES_MS = [1_000, 2_000];
/** How long good news, and bad, is good for whoever asks next. */
const THERE_FOR_MS = 30_000;
const AWAY_FOR_MS = 500;

/**
 * Why nobody can be reached there, or null. A connection is enough: an engine may be too busy to answer, and a provider too careful
 * to answer without a key.
 */
export function troubleWith(baseUrl: string): Promise<string | null> {
	const url = new URL(baseUrl);
	const port = Number(url.port) || (url.protocol === "https:" ? 443 : 80);
	const socket = connect({ host: url.hostname.replace(/^\[|\]$/g, ""), port, lookup: lookupOpen });
	return new Promise((resolve) => {
		const end = (why: string | null) => {
			socket.destroy();
			resolve(why);
		};
		socket.setTimeout(LIMIT_MS, () => end(`no connection within ${LIMIT_MS / 1000} s`));
		socket.once("connect", () => end(null));
		socket.once("error", (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
	});
}

/** Looks before a box is opened, once for a whole batch. */
export class Reach {
	readonly #asked = new Map<string, Promise<string | null>>();

	async require(baseUrl: string, signal: AbortSignal): Promise<void> {
		const { origin } = new URL(baseUrl);
		const asked = this.#asked.get(origin) ?? this.#ask(origin);
		const aborted = Promise.withResolvers<never>();
		const onAbort = () => aborted.reject(signal.reason);
		signal.throwIfAborted();
		signal.addEventListener("abort", onAbort);
		try {
			const why = await Promise.race([asked, aborted.promise]);
			if (why === null) return;
			const message = `the model endpoint ${baseUrl} cannot be reached (${why})`;
			throw new RolloutError("provider", "provider_unreachable", message, { retryable: true });
		} finally {
			signal.removeEventListener("abort", onAbort);
		}
	}

	#ask(origin: string): Promise<string | null> {
		const asked = lookAgain(origin);
		this.#asked.set(origin, asked);
		void asked.then((why) => {
			setTimeout(() => this.#asked.delete(origin), why === null ? THERE_FOR_MS : AWAY_FOR_MS).unref();
		});
		return asked;
	}
}

async function lookAgain(origin: string): Promise<string | null> {
	for (const pauseMs of PAUSES_MS) {
		if ((await troubleWith(origin)) === null) return null;
		await pause(pauseMs);
	}
	return await troubleWith(origin);
}
