import { excessOf, MESSAGE_LIMITS, parseInSteps } from "../model/measured-json.ts";

/** Room for a large task; instructions and files have their own, smaller limits. */
export const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;
/** A sender in full flow does not listen; so much more is read and dropped before it is cut off. */
const MAX_DRAINED_BYTES = 8 * MAX_MESSAGE_BYTES;

export type Body =
	| { type: "json"; value: unknown }
	| { type: "empty"; value?: undefined }
	| { type: "unreadable"; message: string; value?: undefined }
	| { type: "too-large"; message: string; value?: undefined };

/** Reads a JSON body without ever holding more than the limit, and parses none that would become more. */
export async function readBody(request: Request, maxBytes = MAX_MESSAGE_BYTES): Promise<Body> {
	const chunks: Uint8Array[] = [];
	let sizeBytes = 0;
	for await (const chunk of request.body ?? []) {
		sizeBytes += chunk.byteLength;
		if (sizeBytes > maxBytes) chunks.length = 0;
		else chunks.push(chunk);
		if (sizeBytes > MAX_DRAINED_BYTES) break;
	}
	if (sizeBytes === 0) return { type: "empty" };
	if (sizeBytes > maxBytes)
		return { type: "too-large", message: `the body is larger than ${maxBytes} bytes` };
	const bytes = Buffer.concat(chunks);
	const excess = excessOf(bytes, MESSAGE_LIMITS);
	if (excess !== null) return { type: "too-large", message: `the body is ${excess}` };
	try {
		return { type: "json", value: await parseInSteps(bytes, { fatal: true }) };
	} catch (error) {
		return { type: "unreadable", message: error instanceof Error ? error.message : String(error) };
	}
}
