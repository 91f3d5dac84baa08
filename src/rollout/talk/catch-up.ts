import type { AgentMessage, Conversation } from "../../agent/agent.ts";
import { shorten } from "../../model/shorten.ts";
import type { RolloutRecord } from "../record.ts";
import type { Transcript } from "../transcript.ts";
import type { Past } from "./recall.ts";

/** Reasons of a model to stop that let its agent go on. */
const GOING_ON = new Set<unknown>(["tool-calls", "unknown", undefined]);

/** An agent that remembers may have gone on while nobody listened: turns that came to their end are told now. What is left is said again. */
export async function catchUp(
	past: Past,
	conversation: Conversation,
	transcript: Transcript,
	record: RolloutRecord,
): Promise<Past> {
	const messages = await conversation.messages();
	record.emit({ type: "state-restored", messages: messages.length });
	const answers = past.unheard.map(({ messageId }) => ({ messageId, text: answerTo(messageId, messages) }));
	const told = answers.filter((answer) => answer.text !== null);
	if (told.length > 0) await transcript.keep(conversation);
	for (const { messageId, text } of told)
		record.emit({
			type: "turn-end",
			messageId,
			ended: "answered",
			text: shorten(text) as string,
			error: null,
		});
	const isTold = new Set(told.map(({ messageId }) => messageId));
	return { ...past, unheard: past.unheard.filter(({ messageId }) => !isTold.has(messageId)) };
}

/** Null when it has none yet, or was cut off. */
function answerTo(messageId: string, messages: readonly AgentMessage[]): string | null {
	const last = messages.findLast(({ info }) => info.parentID === messageId);
	if (last === undefined || GOING_ON.has(last.info.finish) || last.info.error !== undefined) return null;
	const texts = last.parts.filter(({ type, text }) => type === "text" && text !== "");
	return texts.map(({ text }) => String(text)).join("\n\n");
}
