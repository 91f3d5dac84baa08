import { RolloutError } from "../../errors.ts";
import type { PromptBody, ServeAnswer, ServeClient } from "./client.ts";

export interface SendTimes {
	postMs: number;
	tries: number;
	/** Times the number of the try. */
	pauseMs: number;
	/** A message that was taken may show only now. */
	lookAgainMs: number;
	sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export interface Saying {
	sessionId: string;
	prompt: PromptBody;
	traceId?: string | undefined;
}

/**
 * Says it once. When nobody knows whether a try arrived, the server is asked for our message; if it has none, the same ids are posted
 * again, which OpenCode takes for the same message.
 */
export async function sendOnce(
	client: ServeClient,
	saying: Saying,
	times: SendTimes,
	signal: AbortSignal,
): Promise<void> {
	const { sessionId, prompt } = saying;
	for (let attempt = 1; ; attempt += 1) {
		const failure = await post(client, saying, times.postMs);
		if (failure === null || (await isThere(client, sessionId, prompt.messageID, times, signal))) return;
		if (attempt >= times.tries || signal.aborted) throw failure;
		await times.sleep(times.pauseMs * attempt, signal);
	}
}

/** Null when it was taken; the error when that is not known. A refusal is thrown: it would be refused again. */
async function post(
	client: ServeClient,
	{ sessionId, prompt, traceId }: Saying,
	timeoutMs: number,
): Promise<RolloutError | null> {
	try {
		return refusal(await client.prompt(sessionId, prompt, timeoutMs, traceId), "the prompt");
	} catch (error) {
		if (error instanceof RolloutError && error.retryable) return error;
		throw error;
	}
}

/** Null for a yes; thrown for a no that will stay one; returned where it may be otherwise next time. */
export function refusal({ status, said }: ServeAnswer, what: string): RolloutError | null {
	if (status >= 200 && status <= 299) return null;
	const message = `opencode serve answered ${what} with ${status}: ${said}`;
	if (status === 401 || status === 403) throw new RolloutError("agent", "agent_auth_failed", message);
	if (status === 404) throw new RolloutError("agent", "session_not_found", message);
	if (status < 500) throw new RolloutError("agent", "send_rejected", message);
	return new RolloutError("agent", "agent_api_error", message, { retryable: true });
}

async function isThere(
	client: ServeClient,
	sessionId: string,
	messageId: string,
	times: SendTimes,
	signal: AbortSignal,
): Promise<boolean> {
	for (const pauseMs of [0, times.lookAgainMs]) {
		if (pauseMs > 0) await times.sleep(pauseMs, signal);
		try {
			if (await client.hasMessage(sessionId, messageId)) return true;
		} catch (error) {
			// As long as nobody answers nothing is known; posting the same ids again is harmless.
			if (!(error instanceof RolloutError && error.retryable)) throw error;
		}
	}
	return false;
}
