import { ApiError } from "../../client/client.ts";
import { messageOf } from "../../errors.ts";
import { inFlags } from "./model-options.ts";

/** The server refused or went away: one sentence for people, since there is no bug of ours to trace. */
export class ServerTrouble extends Error {
	override readonly name = "ServerTrouble";
}

/** What came from the server becomes a sentence; anything else stays what it is. */
export function toServerTrouble(error: unknown, url: string): unknown {
	if (error instanceof ApiError) return new ServerTrouble(refusal(error, url), { cause: error });
	// fetch reports a broken connection as a TypeError with a cause; a bug is one without.
	if (error instanceof TypeError && error.cause !== undefined)
		return new ServerTrouble(`${url} does not answer any more (${connectionCause(error)}).`, {
			cause: error,
		});
	return error;
}

/** What the server said, and what can be done about it. */
export function refusal(error: ApiError, url: string): string {
	const hint = error.status === 401 ? " Set PADDOCK_TOKEN to its token." : "";
	return `${url} refused: ${inFlags(error.message).replace(/\.$/, "")} (${error.code}).${hint}`;
}

/** fetch hides the reason one level down. */
export function connectionCause(error: unknown): string {
	const cause = error instanceof Error ? error.cause : undefined;
	return messageOf(cause ?? error) || "no connection";
}
