import { messageOf } from "../../errors.ts";
import { ask, type Questioner } from "../engines/ask.ts";
import type { Dialect } from "../engines/dialect.ts";
import { isObject, type JsonObject, toArray } from "../protocols/protocol.ts";
import { Renderer } from "./renderer.ts";

/**
 * Whether an engine takes prompts as ids: it gets those of one conversation with the words of another, and says which it used. Null when
 * it does, else why not.
 */
export async function tryStitching(
	questioner: Questioner,
	dialect: Dialect,
	question: JsonObject,
): Promise<string | null> {
	const renderer = new Renderer(questioner.endpoint, dialect, questioner.dispatcher);
	try {
		const ids = await renderer.render({
			...question,
			messages: [{ role: "user", content: "Say something else." }],
		});
		const reply = await ask(questioner, { ...question, ...dialect.toPrompt!(ids) });
		if ("fault" in reply) return `it refuses a prompt as ids: ${reply.fault.message}`;
		const used = promptOf(reply.answer ?? {});
		if (used.length === ids.length && used.every((id, at) => id === ids[at])) return null;
		return "it does not use a prompt that it is sent as ids";
	} catch (error) {
		return messageOf(error);
	}
}

/** vLLM says it of the answer, SGLang of the choice. */
function promptOf(answer: JsonObject): unknown[] {
	const [choice] = toArray(answer.choices);
	return toArray(answer.prompt_token_ids ?? (isObject(choice) ? choice.prompt_token_ids : undefined));
}
