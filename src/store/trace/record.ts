import { crc32 } from "node:zlib";
import { UsageError } from "../../errors.ts";

/** The framing of the call log: see docs/trace.md. This file knows bytes and checksums, nothing of calls. */
export const TRACE_VERSION = 1;

export const RecordType = { start: 0, call: 1, superseded: 2 } as const;

export interface TraceRecord {
	type: number;
	deflated: boolean;
	payload: Buffer;
}

const MAGIC = Buffer.from("PDKTRACE", "latin1");
const START_BYTES = MAGIC.length + 4;
const HEADER_BYTES = 12;
/** A longer length can only be damage. */
export const MAX_PAYLOAD_BYTES = 2 ** 30;

/** Opens a log, or a new section of one: whoever reads on from here needs nothing that came before. */
export function encodeStart(): Buffer {
	const start = Buffer.alloc(START_BYTES);
	MAGIC.copy(start);
	start.writeUInt32LE(TRACE_VERSION, MAGIC.length);
	return start;
}

export function encodeRecord(record: TraceRecord): Buffer {
	const bytes = Buffer.alloc(HEADER_BYTES + record.payload.length);
	bytes.writeUInt8(record.type, 0);
	bytes.writeUInt8(record.deflated ? 1 : 0, 1);
	bytes.writeUInt32LE(record.payload.length, 4);
	record.payload.copy(bytes, HEADER_BYTES);
	bytes.writeUInt32LE(checksum(bytes), 8);
	return bytes;
}

/** Every whole record; a `start` for each section. Damage ends a section; reading goes on at the next one. */
export async function* readRecords(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<TraceRecord> {
	const queue = new ByteQueue(chunks);
	while (await queue.has(1)) {
		if (queue.peek(1)[0] === MAGIC[0]) {
			if (!(await queue.has(START_BYTES))) return;
			if (isStart(queue.peek(START_BYTES))) {
				queue.skip(START_BYTES);
				yield { type: RecordType.start, deflated: false, payload: Buffer.alloc(0) };
				continue;
			}
		}
		const record = await wholeRecord(queue);
		if (record) yield record;
		else if (!(await skipToStart(queue))) return;
	}
}

async function wholeRecord(queue: ByteQueue): Promise<TraceRecord | null> {
	if (!(await queue.has(HEADER_BYTES))) return null;
	const length = queue.peek(HEADER_BYTES).readUInt32LE(4);
	if (length > MAX_PAYLOAD_BYTES || !(await queue.has(HEADER_BYTES + length))) return null;
	const bytes = queue.peek(HEADER_BYTES + length);
	if (bytes.readUInt32LE(8) !== checksum(bytes)) return null;
	queue.skip(bytes.length);
	return {
		type: bytes.readUInt8(0),
		deflated: (bytes.readUInt8(1) & 1) === 1,
		payload: bytes.subarray(HEADER_BYTES),
	};
}

/** Over all of the record but the checksum itself. */
function checksum(bytes: Buffer): number {
	return crc32(bytes.subarray(HEADER_BYTES), crc32(bytes.subarray(0, 8)));
}

function isStart(bytes: Buffer): boolean {
	if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) return false;
	const version = bytes.readUInt32LE(MAGIC.length);
	if (version === TRACE_VERSION) return true;
	throw new UsageError(
		`this trace is of version ${version}; this program reads version ${TRACE_VERSION}: read it with the program that wrote it`,
		"trace_version",
	);
}

/** Past the damage, to the start of the next section; false when there is none. */
async function skipToStart(queue: ByteQueue): Promise<boolean> {
	for (let from = 1; ; from = 0) {
		const seen = queue.all();
		const at = seen.indexOf(MAGIC, from);
		if (at >= 0) {
			queue.skip(at);
			return queue.has(START_BYTES);
		}
		// The magic may straddle the edge of what has arrived.
		queue.skip(Math.max(from, seen.length - MAGIC.length + 1));
		if (!(await queue.has(MAGIC.length))) return false;
	}
}

/** Chunks of any size in, spans of the asked size out. */
class ByteQueue {
	readonly #source: AsyncIterator<Uint8Array>;
	#chunks: Buffer[] = [];
	#length = 0;

	constructor(chunks: AsyncIterable<Uint8Array>) {
		this.#source = chunks[Symbol.asyncIterator]();
	}

	/** Reads on until `bytes` are there; false when the source ends before. */
	async has(bytes: number): Promise<boolean> {
		while (this.#length < bytes) {
			const next = await this.#source.next();
			if (next.done) return false;
			this.#chunks.push(Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength));
			this.#length += next.value.byteLength;
		}
		return true;
	}

	peek(bytes: number): Buffer {
		const first = this.#chunks[0];
		if (first && first.length >= bytes) return first.subarray(0, bytes);
		return this.all().subarray(0, bytes);
	}

	all(): Buffer {
		if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
		return this.#chunks[0]!;
	}

	skip(bytes: number): void {
		const rest = this.all().subarray(Math.min(bytes, this.#length));
		this.#chunks = rest.length > 0 ? [rest] : [];
		this.#length = rest.length;
	}
}
