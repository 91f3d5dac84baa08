import { RolloutError } from "../../errors.ts";
import type { BoxEntry, BoxFile } from "../sandbox.ts";
import type { Control } from "./control.ts";
import { lostMidway, parseReply, toBoxError } from "./exec.ts";
import { readFrames } from "./frames.ts";
import { inputFrames, sendFrames } from "./input.ts";
import { encodeFrame, type FileHeader, FROM_BOX, type Request, TO_BOX } from "./wire.ts";

const DEFAULT_MAX_FILE_BYTES = 64 * 1024 * 1024;
const DEFAULT_MAX_ENTRIES = 10_000;
/** Longest path, and then some, per entry. */
const MAX_ENTRY_BYTES = 8 * 1024;

export async function readFile(
	control: Control,
	path: string,
	maxBytes = DEFAULT_MAX_FILE_BYTES,
): Promise<Buffer> {
	const { data } = await request(control, { op: "read", path, maxBytes }, maxBytes);
	return data;
}

/** All of them over one connection: their number is no burden. */
export async function writeFiles(control: Control, files: Iterable<BoxFile>): Promise<void> {
	await request(control, { op: "write" }, 0, fileFrames(files));
}

function* fileFrames(files: Iterable<BoxFile>): Generator<Buffer> {
	for (const { path, data, executable = false } of files) {
		const header: FileHeader = { path, executable };
		yield encodeFrame(TO_BOX.file, JSON.stringify(header));
		yield* inputFrames(typeof data === "string" ? Buffer.from(data) : data);
	}
	yield encodeFrame(TO_BOX.stdinEnd, "");
}

export async function exists(control: Control, path: string): Promise<boolean> {
	const { reply } = await request(control, { op: "exists", path }, 0);
	return reply.exists === true;
}

export async function list(
	control: Control,
	path: string,
	options: { recursive?: boolean; maxEntries?: number },
): Promise<BoxEntry[]> {
	const { recursive = false, maxEntries = DEFAULT_MAX_ENTRIES } = options;
	const limit = maxEntries * MAX_ENTRY_BYTES;
	const { data } = await request(control, { op: "list", path, recursive, maxEntries }, limit);
	const lines = data.toString("utf8").split("\n").slice(0, -1);
	return lines.slice(0, maxEntries).map((line) => toEntry(parseReply(Buffer.from(line))));
}

/** One question to the box: what it streams back, never more than `maxBytes`, and its last word. */
export async function request(
	control: Control,
	question: Request,
	maxBytes: number,
	input?: Iterable<Buffer>,
): Promise<{ reply: Record<string, unknown>; data: Buffer }> {
	const { connection } = await control.open(question);
	const chunks: Buffer[] = [];
	let size = 0;
	await using patience = control.expectAnswer();
	connection.on("drain", () => patience.refresh());
	try {
		if (input !== undefined) sendFrames(connection, input);
		for await (const { type, payload } of readFrames(connection)) {
			patience.refresh();
			if (type === FROM_BOX.result) return { reply: parseReply(payload), data: Buffer.concat(chunks) };
			if (type === FROM_BOX.failed) throw toBoxError(payload);
			size += payload.length;
			if (size > maxBytes)
				throw new RolloutError("sandbox", "bad_frame", "the box sent more than was asked for");
			chunks.push(payload);
		}
		throw lostMidway(control);
	} finally {
		connection.destroy();
	}
}

const TYPES = new Set(["file", "directory", "link", "other"]);

function toEntry(value: Record<string, unknown>): BoxEntry {
	const type = TYPES.has(String(value.type)) ? (value.type as BoxEntry["type"]) : "other";
	return { path: String(value.path), type, sizeBytes: Number(value.sizeBytes) || 0 };
}
