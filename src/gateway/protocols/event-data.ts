import { faultOfStatus, UpstreamFault } from "../upstream/fault.ts";
import { isObject, type JsonObject, toText } from "./protocol.ts";

/** The JSON object an event carries. */
export function parseEventData(data: string): { value: JsonObject; isRepaired: boolean } {
	const value = tryParse(data);
	if (isObject(value)) return { value, isRepaired: false };
	// Python engines may print NaN and Infinity, which JSON has no words for.
	const repaired = tryParse(data.replace(/([:[,]\s*)(?:-?Infinity|NaN)(?=\s*[,}\]])/g, "$1null"));
	if (isObject(repaired)) return { value: repaired, isRepaired: true };
	throw new UpstreamFault("provider_malformed", "the model endpoint sent an event that is not a JSON object");
}

function tryParse(data: string): unknown {
	try {
		return JSON.parse(data);
	} catch {
		return undefined;
	}
}

/** An error told inside a stream that began well; some engines say which status it would have been. */
export function faultOfErrorEvent(error: unknown): UpstreamFault {
	const text = (isObject(error) ? toText(error.message) : toText(error)) ?? "no text";
	const status = isObject(error) ? Number(error.code ?? error.status) : Number.NaN;
	if (status >= 400 && status < 600) return faultOfStatus(status, text, null);
	const message = `the model endpoint reported an error in its stream: ${text.slice(0, 500)}`;
	return new UpstreamFault("provider_error", message);
}

export function emptyStream(): UpstreamFault {
	return new UpstreamFault("provider_malformed", "the model endpoint answered with an empty stream");
}

export function truncatedStream(how: string): UpstreamFault {
	return new UpstreamFault("provider_truncated", `the model endpoint ended its stream ${how}`);
}
