import { Agent } from "undici";
import { messageOf } from "../../errors.ts";
import { newQuestion } from "../../model/challenge.ts";
import type { Endpoint } from "../../model/endpoint.ts";
import { isObject, toArray } from "../protocols/protocol.ts";
import { lookupOpen } from "../upstream/addresses.ts";
import { ask } from "./ask.ts";

export type ChallengeEnd =
	| { type: "answered" }
	| { type: "refused"; status: number; message: string }
	| { type: "limited"; message: string }
	| { type: "unclear"; message: string };

/** Asks the model one small question with the key, and says what came of it. */
export async function challenge(
	{ baseUrl, model, apiKey }: Pick<Endpoint, "baseUrl" | "model" | "apiKey">,
	signal: AbortSignal,
): Promise<ChallengeEnd> {
	const { question: content, answer } = newQuestion();
	const endpoint: Endpoint = {
		...{ name: "probe", baseUrl, model, dialect: "plain", disableThinking: false },
		...(apiKey === undefined ? {} : { apiKey }),
	};
	const dispatcher = new Agent({ connect: { lookup: lookupOpen } });
	try {
		const reply = await ask({ endpoint, dispatcher, signal }, { messages: [{ role: "user", content }] });
		if ("fault" in reply) return toEnd(reply.fault);
		if (wordsOf(reply.answer).includes(answer)) return { type: "answered" };
		return { type: "unclear", message: "the model answered something else than it was asked" };
	} catch (error) {
		return {
			type: "unclear",
			message: signal.aborted ? "it was not answered in time" : `it cannot be asked: ${messageOf(error)}`,
		};
	} finally {
		await dispatcher.destroy();
	}
}

function toEnd({
	status,
	code,
	message,
}: {
	status: number | null;
	code: string;
	message: string;
}): ChallengeEnd {
	if (status === 401 || status === 403) return { type: "refused", status, message };
	if (code === "rate_limited" || status === 402) return { type: "limited", message };
	return { type: "unclear", message };
}

function wordsOf(answer: unknown): string {
	const [choice] = isObject(answer) ? toArray(answer.choices) : [];
	const message = isObject(choice) && isObject(choice.message) ? choice.message : {};
	return typeof message.content === "string" ? message.content : "";
}
