import { FIRST_CALL } from "../../model/call.ts";
import type { JsonObject } from "../protocols/protocol.ts";
import { isObject, toArray } from "../protocols/protocol.ts";
import { Doubt, tokensBehind } from "./boundary.ts";
import { type Delivered, idsOf, Memory } from "./memory.ts";
import { callsOf, hasMedia, type Likeness, thoughtOf, toConversation } from "./recognise.ts";
import type { Renderer } from "./renderer.ts";

/** A prompt made of what the model has really seen and said, and of what is new. */
export interface Stitched {
	ids: number[];
	parent: Delivered;
	how: Likeness;
	/** How many of the ids are new. */
	added: number;
}

export interface Answered {
	index: number;
	/** The request as it went out, less the ids. */
	body: JsonObject;
	reply: JsonObject;
	finishReason: string | null;
	promptIds: readonly number[];
	completionIds: readonly number[];
	/** The call it goes on from, when the engine has used the ids that it was sent. */
	parent: Delivered | null;
}

/**
 * Keeps a session one chain of tokens behind an agent that speaks messages. Each time a history is templated anew, a blank, a
 * respelled argument or a replaced call changes tokens before the new ones. So the prompt is put together: the parent's
 * prompt, what was sampled, and the tokens that the new messages add. Any doubt means the plain request.
 */
export class Stitcher {
	readonly #memory = new Memory();

	/** The prompt for this request, or why it goes out plain. Never rejects. */
	async prepare(
		session: string,
		body: JsonObject,
		renderer: Renderer,
		keepReasoning: boolean,
	): Promise<Stitched | string> {
		const messages = toArray(body.messages);
		if (!this.#memory.has(session))
			return this.#memory.knows(session) ? "the session is longer than what is remembered" : FIRST_CALL;
		if (hasMedia(messages)) return "the messages hold more than text";
		const parent = this.#memory.find(session, toConversation(body), messages);
		if (parent === null) return "the history is not one that was delivered";
		const rest = messages.slice(parent.from);
		if (
			parent.call.hasReasoned &&
			!keepReasoning &&
			rest.some((message) => isObject(message) && message.role === "user")
		)
			return "new words of a person after reasoning";
		try {
			const doubt = await renderer.doubt();
			if (doubt !== null) return doubt;
			const before = idsOf(parent.call.line);
			const added = await behind(parent.call, body, parent.from, before.at(-1)!, renderer);
			const ids = before.concat(added);
			if (ids.length >= renderer.maxModelLength) return "the prompt fills the model's context";
			return { ids, parent: parent.call, how: parent.how, added: added.length };
		} catch (error) {
			return renderer.fail(error);
		}
	}

	/** The agent has the whole of this call: a later one may go on from it. */
	delivered(session: string, answered: Answered, renderer: Renderer): void {
		const { promptIds, completionIds, body, reply, parent, finishReason } = answered;
		if (promptIds.length === 0 || completionIds.length === 0) return;
		if (parent === null) renderer.calibrate(body, promptIds);
		const before = parent?.line ?? null;
		const tail = Int32Array.from([...promptIds.slice(before?.length ?? 0), ...completionIds]);
		const { histories, terms } = toConversation(body);
		this.#memory.add(session, {
			index: answered.index,
			messages: histories.length - 1,
			history: histories.at(-1)!,
			terms,
			reply,
			bytes: JSON.stringify(reply).length,
			isCut: finishReason === "length" || hasStops(body),
			hasReasoned: thoughtOf(reply) !== "" || (parent?.hasReasoned ?? false),
			line: { before, tail, length: promptIds.length + completionIds.length, users: 0 },
		});
	}
}

async function behind(
	parent: Delivered,
	body: JsonObject,
	from: number,
	last: number,
	renderer: Renderer,
): Promise<number[]> {
	const messages = toArray(body.messages);
	const rest = messages.slice(from);
	// Tools stand before the reply: the short renders do without them, and the whole one is the check.
	const { tools: _tools, ...bare } = body;
	const short = (word: string, after: unknown[]) =>
		renderer.render({
			...bare,
			messages: [{ role: "user", content: "x" }, standIn(parent.reply, word), ...after],
		});
	const other = [{ ...(rest[0] as JsonObject), content: "qx" }, ...rest.slice(1)];
	const closers = await renderer.closers();
	const [one, another, changed, whole] = await Promise.all([
		short("xq", rest),
		short("zk", rest),
		short("xq", other),
		renderer.render({
			...body,
			messages: [...messages.slice(0, from - 1), standIn(parent.reply, "xq"), ...rest],
		}),
	]);
	const hasEnded = closers.has(last);
	// Some templates close a turn otherwise than models do (a call, a last word): what belongs behind it is not known.
	if (!hasEnded && !parent.isCut) throw new Doubt("the turn ended as the template does not end one");
	return tokensBehind({ one, other: another, changed, whole }, { last, hasEnded }, closers);
}

function hasStops({ stop }: JsonObject): boolean {
	return typeof stop === "string" || toArray(stop).length > 0;
}

/** The reply with other words in it. Ids and names of its calls stay: templates print them, and answers refer to them. */
function standIn(reply: JsonObject, word: string): JsonObject {
	const calls = callsOf(reply).map(({ id, name }) => ({
		id,
		type: "function",
		function: { name, arguments: JSON.stringify({ v: word }) },
	}));
	return { role: "assistant", content: word, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
}
