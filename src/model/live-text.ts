import { z } from "zod";

/** A piece of text as it is being written; it is told, and not stored. What stands from `offset` on is now `text`. */
export const LiveText = z
	.object({
		type: z.literal("text"),
		sessionId: z.string(),
		isChild: z.boolean().describe("Written by a sub-agent"),
		messageId: z.string(),
		partId: z.string(),
		kind: z.enum(["text", "reasoning"]),
		offset: z.int().min(0).describe("In UTF-16 code units, as JavaScript counts"),
		text: z.string(),
	})
	.meta({ id: "LiveText" });
export type LiveText = z.infer<typeof LiveText>;

/** How much of each text that is being written a reader has, by part. */
export type Have = ReadonlyMap<string, number>;

const MAX_NAMED = 16;

/** Where a reader is, in one word that a browser hands back by itself: the last event, and how much of each text. */
export function toPosition(seq: number, have: Have): string {
	const parts = [...have].slice(-MAX_NAMED).map(([partId, length]) => `;${partId}=${length}`);
	return `${seq}${parts.join("")}`;
}

export const POSITION = /^\d{1,15}(;[A-Za-z0-9_-]{1,100}=\d{1,9}){0,16}$/;

export function parsePosition(text: string): { after: number; have: Have } {
	const [seq, ...parts] = text.split(";");
	const have = parts.map((part) => part.split("=") as [string, string]);
	return { after: Number(seq), have: new Map(have.map(([partId, length]) => [partId, Number(length)])) };
}
