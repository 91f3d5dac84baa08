import { z } from "zod";
import type { Piece } from "./texts.ts";

/** PostgreSQL takes less than 8,000 bytes in one notification. */
const MAX_BYTES = 7_900;

const WirePiece = z.object({
	i: z.string(),
	s: z.string(),
	c: z.boolean(),
	m: z.string(),
	p: z.string(),
	k: z.enum(["text", "reasoning"]),
	o: z.int().min(0),
	t: z.string(),
	x: z.boolean(),
});

/** What processes tell each other: that they want to hear an agent, that it speaks here, what it writes, what the log has by now. */
const Frame = z.union([
	z.strictObject({ want: z.string() }),
	z.strictObject({ here: z.string() }),
	z.strictObject({ end: z.string(), p: z.string() }),
	WirePiece,
]);
export type Frame = z.infer<typeof Frame>;

const Notification = z.object({ from: z.string(), frames: z.array(Frame) });

export function toFrame(id: string, piece: Piece): Frame {
	const { sessionId, isChild, messageId, partId, kind, offset, text, cuts } = piece;
	return { i: id, s: sessionId, c: isChild, m: messageId, p: partId, k: kind, o: offset, t: text, x: cuts };
}

export function toPiece({ i: id, s, c, m, p, k, o, t, x }: z.infer<typeof WirePiece>): {
	id: string;
	piece: Piece;
} {
	const place = { type: "text", sessionId: s, isChild: c, messageId: m, partId: p, kind: k } as const;
	return { id, piece: { ...place, offset: o, text: t, cuts: x } };
}

/** As many of the waiting frames as fit into one notification, taken from their front; one that is too long goes in parts. */
export function packFirst(from: string, waiting: Frame[]): string {
	const frames: Frame[] = [];
	let bytes = sizeOf({ from, frames });
	while (waiting.length > 0) {
		const [frame] = waiting as [Frame];
		const size = sizeOf(frame) + 1;
		if (bytes + size <= MAX_BYTES) {
			frames.push(frame);
			waiting.shift();
			bytes += size;
			continue;
		}
		if (frames.length > 0) break;
		const [head, rest] = cut(frame, MAX_BYTES - bytes - 1);
		frames.push(head);
		waiting.splice(0, 1, ...rest);
		break;
	}
	return JSON.stringify({ from, frames });
}

export function unpack(payload: string): z.infer<typeof Notification> | null {
	try {
		return Notification.safeParse(JSON.parse(payload)).data ?? null;
	} catch {
		return null; // Not one of ours: anybody who may use the database may notify.
	}
}

/** The first part cuts, if the whole did; the rest follows it without a gap. */
function cut(frame: Frame, room: number): [Frame, Frame[]] {
	if (!("t" in frame)) return [frame, []];
	const fixed = sizeOf({ ...frame, t: "" });
	// A character takes six bytes at most: \udead, or \u0000.
	const length = Math.max(1, Math.floor((room - fixed) / 6));
	const head = { ...frame, t: frame.t.slice(0, length) };
	return [head, [{ ...frame, t: frame.t.slice(length), o: frame.o + length, x: false }]];
}

function sizeOf(value: unknown): number {
	return Buffer.byteLength(JSON.stringify(value));
}
