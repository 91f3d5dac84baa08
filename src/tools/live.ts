import { z } from "zod";
import { UsageError } from "../errors.ts";
import type { ConversationEvent } from "../model/conversation.ts";
import { untilTimeout } from "../model/duration.ts";
import type { Paddock } from "../paddock.ts";

const id = (from: string) => z.string().min(1).max(120).nullish().describe(`As ${from} returned it`);

/** A live agent, whichever kind it is. */
export const liveShape = {
	conversation_id: id("start_conversation"),
	rollout_id: id("start_rollout"),
};

export const byShape = {
	by: z.string().min(1).max(100).default("mcp").describe("Who says it; goes on the record"),
};

export const waitShape = {
	wait_s: z
		.number()
		.min(0)
		.max(600)
		.nullish()
		.describe(
			"How long to wait until the agent of a conversation has answered, or asks something. Default 45",
		),
};

/** What an agent made of what it was told. */
export const Reply = z.object({
	id: z.string(),
	status: z
		.enum(["answered", "asking", "working", "interrupted", "failed", "closed"])
		.describe("asking: it waits for `answer`; working: it has not come to an end yet, ask again later"),
	text: z.string().describe("Its last words"),
	error: z.string().nullable(),
	asks: z.array(z.record(z.string(), z.unknown())).describe("What waits for `answer`"),
	cursor: z.int().describe("How far its events were read"),
});
export type Reply = z.infer<typeof Reply>;

const WAIT_S = 45;

/** The one id that was given. */
export function liveId(given: {
	conversation_id?: string | null | undefined;
	rollout_id?: string | null | undefined;
}): string {
	const { conversation_id, rollout_id } = given;
	const found = conversation_id || rollout_id;
	if (!found || (conversation_id && rollout_id))
		throw new UsageError("name one of conversation_id and rollout_id", "bad_argument");
	return found;
}

/** How far the events go now; null for a rollout, on which nobody waits here. */
export async function cursorOf(paddock: Paddock, id: string): Promise<number | null> {
	return (await paddock.conversation(id))?.lastSeq ?? null;
}

/** Waits until the turn of `messageId` is over, or any turn; or until the agent asks something; or for long enough. */
export async function replyOf(
	paddock: Paddock,
	id: string,
	after: number | null,
	{ messageId, waitS, signal }: { messageId?: string; waitS: number | null | undefined; signal: AbortSignal },
): Promise<Reply> {
	const reply: Reply = { id, status: "working", text: "", error: null, asks: [], cursor: after ?? 0 };
	if (after === null) return reply;
	const until = untilTimeout((waitS ?? WAIT_S) * 1000, signal);
	/** OpenCode's own names for what was said. */
	const mine = new Set<string>();
	for await (const event of paddock.followConversation(id, { after, signal: until })) {
		reply.cursor = event.seq;
		if (event.type === "message-sent" && event.id === messageId && event.messageId !== undefined)
			mine.add(event.messageId);
		if (event.type === "turn-end" && (messageId === undefined || mine.has(event.messageId)))
			return { ...reply, ...toReply(event) };
		if (event.type === "conversation-end")
			return { ...reply, status: "closed", error: event.failure?.message ?? event.reason };
		if (event.type !== "permission-ask" && event.type !== "question-ask") continue;
		const asks = (await paddock.pendingAsks(id)) ?? [];
		if (asks.length > 0) return { ...reply, status: "asking", asks };
	}
	signal.throwIfAborted();
	return reply;
}

function toReply({
	ended,
	text,
	error,
}: ConversationEvent & { type: "turn-end" }): Pick<Reply, "status" | "text" | "error"> {
	const status = ended === "unanswered" ? "failed" : ended;
	return { status, text, error: error && `${error.code}: ${error.message}` };
}
