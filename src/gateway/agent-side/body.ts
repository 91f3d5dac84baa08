import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { toTimerMs } from "../../model/duration.ts";
import type { Measured } from "../../model/measured-json.ts";
import type { GatewayLimits } from "../limits.ts";
import { isObject, type JsonObject } from "../protocols/protocol.ts";
import type { BodyMemory, BodyShare } from "./body-memory.ts";
import type { JsonParser } from "./json-parser.ts";
import { Refusal } from "./refusal.ts";

/** A request's body, and the memory it takes until it is disposed of. */
export interface Body extends Disposable {
	json: JsonObject;
	bytes: number;
	/** The same for the same bytes. */
	digest: string;
}

export interface BodyReader {
	memory: BodyMemory;
	parser: JsonParser;
	limits: GatewayLimits;
}

/** The whole body, within a size, a complexity and a time, and within what its box may hold. */
export async function readBody(
	request: IncomingMessage,
	box: object,
	{ memory, parser, limits }: BodyReader,
): Promise<Body> {
	const { maxBodyBytes, clientBodyMs } = limits;
	const declared = Number(request.headers["content-length"] ?? maxBodyBytes);
	if (declared > maxBodyBytes) throw tooLarge(maxBodyBytes);
	const clock = AbortSignal.timeout(toTimerMs(clientBodyMs));
	const share = await reserve(request, box, declared, memory, clock);
	try {
		const { bytes, digest } = await collect(request, declared, limits, clock);
		share.keepOnly(bytes.length);
		// The parser takes the bytes over.
		const size = bytes.length;
		const json = toObject(await parser.parse(bytes));
		return { json, bytes: size, digest, [Symbol.dispose]: () => share[Symbol.dispose]() };
	} catch (error) {
		share[Symbol.dispose]();
		throw error;
	}
}

async function reserve(
	request: IncomingMessage,
	box: object,
	bytes: number,
	memory: BodyMemory,
	clock: AbortSignal,
): Promise<BodyShare> {
	const gone = new AbortController();
	const onClose = () => gone.abort(brokeOff());
	request.once("close", onClose);
	try {
		return await memory.reserve(box, bytes, AbortSignal.any([clock, gone.signal]));
	} catch (error) {
		if (error instanceof Refusal) throw error;
		throw new Refusal(429, "too_many_calls", "Too much at once.", { "retry-after": "1" });
	} finally {
		request.off("close", onClose);
	}
}

function collect(
	request: IncomingMessage,
	declared: number,
	limits: GatewayLimits,
	clock: AbortSignal,
): Promise<{ bytes: Buffer; digest: string }> {
	const { promise, resolve, reject } = Promise.withResolvers<{ bytes: Buffer; digest: string }>();
	const hash = createHash("sha256");
	// In one place from the start: pieces that wait to be joined would take the same room once more.
	const bytes = Buffer.allocUnsafeSlow(declared);
	let size = 0;
	const onData = (chunk: Buffer) => {
		if (size + chunk.length > declared) return reject(tooLarge(limits.maxBodyBytes));
		hash.update(chunk);
		size += chunk.copy(bytes, size);
	};
	const onEnd = () => resolve({ bytes: bytes.subarray(0, size), digest: hash.digest("base64") });
	const onBroken = () => {
		if (!request.complete) reject(brokeOff());
	};
	const onLate = () => reject(new Refusal(408, "bad_request", "the request did not arrive in time"));
	request.on("data", onData).once("end", onEnd).once("error", onBroken).once("close", onBroken);
	clock.addEventListener("abort", onLate);
	return promise.finally(() => {
		request.off("data", onData).off("end", onEnd).off("close", onBroken);
		clock.removeEventListener("abort", onLate);
	});
}

function toObject(measured: Measured): JsonObject {
	if (measured.type === "parsed" && isObject(measured.value)) return measured.value;
	const what = measured.type === "too-much" ? measured.of : "not a JSON object";
	throw new Refusal(400, "bad_request", `the request is ${what}`);
}

function tooLarge(maxBytes: number): Refusal {
	return new Refusal(413, "bad_request", `the request is larger than ${maxBytes} bytes`);
}

function brokeOff(): Refusal {
	return new Refusal(400, "bad_request", "the request broke off");
}
