import { type ChatMessage, type ChatRequest, reasoningOf, textOf } from "./chat.ts";
import { encodeSegment } from "./segments.ts";
import { CONTROL_ID } from "./vocabulary.ts";

/**
 * The chat template. Each segment is encoded on its own between control tokens, so a prompt that repeats an earlier
 * conversation faithfully begins with exactly the ids of that conversation. Tool-call ids are left out, and arguments
 * are normalised, because agents parse and print them anew.
 */
export function renderPrompt(request: ChatRequest): number[] {
	const ids: number[] = [];
	if (request.tools?.length) append(ids, CONTROL_ID.tools, JSON.stringify(request.tools));
	for (const message of request.messages) renderMessage(ids, message);
	ids.push(CONTROL_ID.assistant);
	return ids;
}

/** What an assistant says, from its first sampled token to the last but `end`. */
export interface Said {
	reasoning: string;
	text: string;
	calls: { name: string; args: string }[];
}

/** The tokens of one assistant turn, each with the part of the reply that it belongs to. */
export type Spoken =
	| { id: number; part: "control" }
	| { id: number; part: "reasoning" }
	| { id: number; part: "text" }
	| { id: number; part: "call"; call: number }
	| { id: number; part: "arguments"; call: number };

export function speak(said: Said): Spoken[] {
	const spoken: Spoken[] = [];
	if (said.reasoning) {
		spoken.push({ id: CONTROL_ID.think, part: "control" });
		for (const id of encodeSegment(said.reasoning)) spoken.push({ id, part: "reasoning" });
		spoken.push({ id: CONTROL_ID.answer, part: "control" });
	}
	for (const id of encodeSegment(said.text)) spoken.push({ id, part: "text" });
	for (const [call, { name, args }] of said.calls.entries()) {
		spoken.push({ id: CONTROL_ID.call, part: "control" });
		for (const id of encodeSegment(name)) spoken.push({ id, part: "control" });
		spoken.push({ id: CONTROL_ID.arguments, part: "call", call });
		for (const id of encodeSegment(args)) spoken.push({ id, part: "arguments", call });
	}
	spoken.push({ id: CONTROL_ID.end, part: "control" });
	return spoken;
}

export function toSaid(message: ChatMessage): Said {
	return {
		reasoning: reasoningOf(message),
		text: textOf(message),
		calls: (message.tool_calls ?? []).map((call) => ({
			name: call.function.name,
			args: normalise(call.function.arguments),
		})),
	};
}

/** Agents parse arguments and print them again; broken ones stay as they are. */
export function normalise(args: string): string {
	try {
		return JSON.stringify(JSON.parse(args));
	} catch {
		return args;
	}
}

const CONTROL_OF_ROLE: Record<string, number> = {
	system: CONTROL_ID.system,
	developer: CONTROL_ID.system,
	tool: CONTROL_ID.tool,
};

function renderMessage(ids: number[], message: ChatMessage): void {
	if (message.role !== "assistant") {
		append(ids, CONTROL_OF_ROLE[message.role] ?? CONTROL_ID.user, textOf(message));
		return;
	}
	ids.push(CONTROL_ID.assistant);
	for (const { id } of speak(toSaid(message))) ids.push(id);
}

function append(ids: number[], control: number, text: string): void {
	ids.push(control);
	for (const id of encodeSegment(text)) ids.push(id);
	ids.push(CONTROL_ID.end);
}
