import { UpstreamFault } from "../upstream/fault.ts";

/** One server-sent event. `data` is null for a block of comments only; `raw` is the block as it came, blank line included. */
export interface SseEvent {
	name: string | null;
	data: string | null;
	raw: Buffer;
}

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const DATA_PREFIX = Buffer.from("data:");

/** Bytes to events, however the bytes are cut. Text is decoded per whole event, so a split character cannot break. */
export class SseParser {
	readonly #maxEventBytes: number;
	/** An event that has begun, in the pieces it came in: joining them each time would take the square of its length. */
	#rest: Buffer[] = [];
	#restBytes = 0;
	/** The last bytes of it: the blank line may be cut anywhere inside "\n\r\n". */
	#edge: Buffer = Buffer.alloc(0);

	constructor(maxEventBytes = 64 * 1024 * 1024) {
		this.#maxEventBytes = maxEventBytes;
	}

	push(chunk: Buffer): SseEvent[] {
		if (this.#restBytes > 0 && findEventEnd(Buffer.concat([this.#edge, chunk]), 0) < 0) {
			this.#keep(chunk);
			return [];
		}
		let search = Math.max(0, this.#restBytes - 2);
		const bytes = this.#takeRest(chunk);
		const events: SseEvent[] = [];
		let start = 0;
		for (;;) {
			const end = findEventEnd(bytes, search);
			if (end < 0) break;
			const event = parseEvent(bytes.subarray(start, end));
			if (event) events.push(event);
			start = end;
			search = end;
		}
		if (start < bytes.length) this.#keep(bytes.subarray(start));
		return events;
	}

	/** What came after the last blank line; engines that close without one still meant it. */
	end(): SseEvent | null {
		if (this.#restBytes === 0) return null;
		const rest = this.#takeRest();
		const event = parseEvent(rest);
		return event && { ...event, raw: Buffer.concat([rest, Buffer.from("\n\n")]) };
	}

	#takeRest(chunk?: Buffer): Buffer {
		const parts = chunk === undefined ? this.#rest : [...this.#rest, chunk];
		this.#rest = [];
		this.#restBytes = 0;
		return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
	}

	#keep(piece: Buffer): void {
		this.#edge = this.#restBytes === 0 ? piece : Buffer.concat([this.#edge, piece]);
		this.#edge = this.#edge.subarray(-2);
		this.#rest.push(piece);
		this.#restBytes += piece.length;
		if (this.#restBytes > this.#maxEventBytes)
			throw new UpstreamFault(
				"provider_malformed",
				"an event of the stream is larger than the gateway accepts",
			);
	}
}

/** The position after the next blank line, or -1. */
function findEventEnd(bytes: Buffer, from: number): number {
	let at = bytes.indexOf(LINE_FEED, from);
	while (at >= 0) {
		const next = bytes[at + 1];
		if (next === LINE_FEED) return at + 2;
		if (next === CARRIAGE_RETURN && bytes[at + 2] === LINE_FEED) return at + 3;
		at = bytes.indexOf(LINE_FEED, at + 1);
	}
	return -1;
}

function parseEvent(raw: Buffer): SseEvent | null {
	const single = parseSingleLine(raw);
	if (single !== null) return { name: null, data: single, raw };
	let name: string | null = null;
	let data: string | null = null;
	let isEmpty = true;
	for (const line of raw.toString("utf8").split(/\r?\n/)) {
		if (line === "") continue;
		// Lines that are none of the protocol's words are not passed on: a page of HTML is no stream.
		isEmpty &&= !/^(data|event|id|retry)?:/.test(line);
		const colon = line.indexOf(":");
		const field = colon < 0 ? line : line.slice(0, colon);
		const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
		if (field === "data") data = data === null ? value : `${data}\n${value}`;
		if (field === "event") name = value;
	}
	return isEmpty ? null : { name, data, raw };
}

/** Nearly every event is one data line: decode just that. */
function parseSingleLine(raw: Buffer): string | null {
	if (raw.length < 7 || raw.compare(DATA_PREFIX, 0, 5, 0, 5) !== 0) return null;
	let end = raw.indexOf(LINE_FEED);
	if (end < 0 || end + 3 < raw.length) return null;
	if (raw[end - 1] === CARRIAGE_RETURN) end -= 1;
	return raw.toString("utf8", raw[5] === 32 ? 6 : 5, end);
}

export function toSse(data: string, name?: string): string {
	return name === undefined ? `data: ${data}\n\n` : `event: ${name}\ndata: ${data}\n\n`;
}
