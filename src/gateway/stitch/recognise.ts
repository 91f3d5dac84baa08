import { createHash } from "node:crypto";
import { isObject, type JsonObject, toArray, toText } from "../protocols/protocol.ts";

/** How the agent's message stands for what the model said. */
export type Likeness = "exact" | "respelled" | "rewritten";

/** A conversation as far as it can be compared. */
export interface Conversation {
	/** At n the digest of the first n messages. */
	histories: string[];
	/** A history can be the same while the tools are not, and the prompt begins with the tools. */
	terms: string;
}

export function toConversation(body: JsonObject): Conversation {
	const histories = [""];
	for (const message of toArray(body.messages)) histories.push(digest([histories.at(-1), message]));
	return {
		histories,
		terms: digest([body.tools ?? null, body.chat_template_kwargs ?? null]),
	};
}

/**
 * Whether an assistant message of the agent is what the model said: the same words, and the same calls by their ids, which
 * are the engine's and unique. Names and arguments may differ: agents print them anew, and replace calls that they could
 * not read. Null is doubt.
 */
export function standsFor(reply: JsonObject, message: unknown): Likeness | null {
	if (!isObject(message) || message.role !== "assistant") return null;
	const [ours, theirs] = [callsOf(reply), callsOf(message)];
	const [said, says] = [textOf(reply.content), textOf(message.content)];
	if (said === null || says === null || said.trim() !== says.trim()) return null;
	if (ours.length !== theirs.length || ours.some((call, index) => call.id !== theirs[index]!.id)) return null;
	if (ours.length === 0 && said.trim() === "") return isSameThought(reply, message) ? "exact" : null;
	const isSpelled = (spell: (text: string) => string) =>
		ours.every(
			(call, index) => call.name === theirs[index]!.name && spell(call.args) === spell(theirs[index]!.args),
		);
	if (said === says && isSpelled((text) => text)) return "exact";
	return isSpelled(canonical) ? "respelled" : "rewritten";
}

/** Whether the messages behind the reply can be the agent's own: no further word of an assistant but a note at the very end. */
export function isContinuation(rest: readonly unknown[]): boolean {
	return (
		rest.length > 0 &&
		rest.slice(0, -1).every((message) => !isObject(message) || message.role !== "assistant")
	);
}

export function hasMedia(messages: readonly unknown[]): boolean {
	return messages.some((message) => isObject(message) && textOf(message.content) === null);
}

/** The calls a message makes. */
export function callsOf(message: JsonObject): { id: string; name: string; args: string }[] {
	return toArray(message.tool_calls)
		.filter(isObject)
		.map((call) => {
			const asked = isObject(call.function) ? call.function : {};
			return {
				id: toText(call.id) ?? "",
				name: toText(asked.name) ?? "",
				args: toText(asked.arguments) ?? "",
			};
		});
}

/** Null where it holds something other than text. */
function textOf(content: unknown): string | null {
	if (content === null || content === undefined) return "";
	if (typeof content === "string") return content;
	if (!Array.isArray(content)) return null;
	const texts = content.map((part) => (isObject(part) && part.type === "text" ? toText(part.text) : null));
	return texts.includes(null) ? null : texts.join("");
}

/** A reply without words or calls is known by its thoughts, or not at all. */
function isSameThought(reply: JsonObject, message: JsonObject): boolean {
	const thought = thoughtOf(reply);
	return thought !== "" && thought === thoughtOf(message);
}

export function thoughtOf(message: JsonObject): string {
	return (toText(message.reasoning) ?? toText(message.reasoning_content) ?? "").trim();
}

/** The same for JSON that means the same, whatever its spacing, escapes and order of keys. */
function canonical(text: string): string {
	try {
		return JSON.stringify(JSON.parse(text), (_key, value) =>
			isObject(value)
				? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
				: value,
		);
	} catch {
		return text;
	}
}

function digest(value: unknown): string {
	return createHash("sha256").update(JSON.stringify(value)).digest("base64");
}
