import type { Usage } from "../../model/call.ts";
import { isObject, type JsonObject, type ProtocolError, toCount } from "./protocol.ts";

/** What OpenAI's two protocols have in common. */

export function toBearer(apiKey: string): Record<string, string> {
	return { authorization: `Bearer ${apiKey}` };
}

export function toOpenAiError({ type, code, message }: ProtocolError): JsonObject {
	return { error: { message, type, param: null, code } };
}

/** The same numbers under two pairs of names. */
export function toOpenAiUsage(
	usage: JsonObject,
	prompt: "prompt" | "input",
	completion: "completion" | "output",
): Usage {
	const details = usage[`${prompt}_tokens_details`];
	const cached = isObject(details) ? details.cached_tokens : undefined;
	return {
		promptTokens: toCount(usage[`${prompt}_tokens`]),
		completionTokens: toCount(usage[`${completion}_tokens`]),
		...(cached === undefined ? {} : { cachedTokens: toCount(cached) }),
	};
}
