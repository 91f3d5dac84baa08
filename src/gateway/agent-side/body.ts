import type { IncomingMessage } from "node:http";
import { isObject, type JsonObject } from "../protocols/protocol.ts";
import type { BodyShare } from "./body-memory.ts";
import { Refusal } from "./refusal.ts";

/** The whole body, within a size and a time, and within what its box may hold. */
export function readBody(
	request: IncomingMessage,
	maxBytes: number,
	timeoutMs: number,
	share: BodyShare,
): Promise<Buffer> {
	const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
	const tooLarge = () => new Refusal(413, "bad_request", `the request is larger than ${maxBytes} bytes`);
	if (Number(request.headers["content-length"] ?? 0) > maxBytes) return Promise.reject(tooLarge());
	const timer = setTimeout(
		() => reject(new Refusal(408, "bad_request", "the request did not arrive in time")),
		timeoutMs,
	);
	const chunks: Buffer[] = [];
	let size = 0;
	request.on("data", (chunk: Buffer) => {
		size += chunk.length;
		if (size > maxBytes) reject(tooLarge());
		else if (share.add(chunk.length)) chunks.push(chunk);
		else reject(new Refusal(429, "too_many_calls", "Too much at once.", { "retry-after": "1" }));
	});
	request.once("end", () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
	const onBroken = () => {
		if (!request.complete) reject(new Refusal(400, "bad_request", "the request broke off"));
	};
	request.once("error", onBroken);
	request.once("close", onBroken);
	return promise.finally(() => {
		clearTimeout(timer);
		request.removeAllListeners("data");
	});
}

export function parseBody(bytes: Buffer): JsonObject {
	try {
		const value: unknown = JSON.parse(bytes.toString("utf8"));
		if (isObject(value)) return value;
	} catch {
		// Falls through to the one error for both.
	}
	throw new Refusal(400, "bad_request", "the request is not a JSON object");
}
