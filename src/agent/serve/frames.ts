/** What came out of an event stream: the data of one frame, or the head of one that was too large to keep. */
export type Frame = { type: "data"; text: string } | { type: "oversize"; head: string };

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const HEAD_CHARACTERS = 200;

/** Server-sent events from bytes that may be cut anywhere. Holds at most one frame, and never more than `maxBytes` of it. */
export class FrameReader {
	readonly #maxBytes: number;
	/** The line being read, in pieces. */
	#line: Buffer[] = [];
	#data: string[] = [];
	#bytes = 0;
	#oversize = false;

	constructor(maxBytes: number) {
		this.#maxBytes = maxBytes;
	}

	*read(chunk: Uint8Array): Iterable<Frame> {
		const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
		for (let start = 0; start < bytes.length; ) {
			const end = bytes.indexOf(NEWLINE, start);
			this.#keep(bytes.subarray(start, end === -1 ? bytes.length : end));
			if (end === -1) return;
			start = end + 1;
			const frame = this.#endLine();
			if (frame !== null) yield frame;
		}
	}

	#keep(piece: Buffer): void {
		this.#bytes += piece.length;
		if (!this.#oversize && this.#bytes > this.#maxBytes) this.#overflow(piece);
		if (!this.#oversize) this.#line.push(Buffer.from(piece));
		// Of a frame that is skipped, a line only has to show whether it is blank.
		else if (this.#line.length < 2 && piece.length > 0) this.#line.push(Buffer.from(piece.subarray(0, 2)));
	}

	#overflow(piece: Buffer): void {
		this.#oversize = true;
		const rest = Buffer.concat([...this.#line, piece]).subarray(0, HEAD_CHARACTERS * 4);
		this.#data = [[...this.#data, rest.toString("utf8")].join("\n").slice(0, HEAD_CHARACTERS)];
		if (this.#line.length > 0) this.#line = [Buffer.from("data")];
	}

	#endLine(): Frame | null {
		const line = trimReturn(Buffer.concat(this.#line));
		this.#line = [];
		if (line.length === 0) return this.#endFrame();
		if (this.#oversize) return null;
		const text = line.toString("utf8");
		if (text.startsWith("data:")) this.#data.push(text.slice(text[5] === " " ? 6 : 5));
		return null;
	}

	#endFrame(): Frame | null {
		const data = this.#data;
		const isOversize = this.#oversize;
		this.#data = [];
		this.#bytes = 0;
		this.#oversize = false;
		if (isOversize) return { type: "oversize", head: data[0] ?? "" };
		return data.length === 0 ? null : { type: "data", text: data.join("\n") };
	}
}

function trimReturn(line: Buffer): Buffer {
	return line.at(-1) === RETURN ? line.subarray(0, -1) : line;
}
