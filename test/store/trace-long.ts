import type { ModelCall } from "../../src/model/call.ts";
import { aCall, NEUTRAL } from "../export/calls.ts";
import { seeded } from "./trace-random.ts";

const VOCABULARY = 150_000;
const WORDS = Array.from(
	{ length: 4000 },
	(_, at) => `${at.toString(36)}${"aeiou"[at % 5]}${(at * 7919).toString(36)}`,
);

/**
 * A conversation of many turns, call by call, as an agent makes it: each prompt is all before it plus a tool result. Words
 * and ids are drawn as in real text (few common, many rare), logprobs at random.
 */
export function* longRollout(turns: number, tokens: number): Generator<ModelCall> {
	const random = seeded(turns);
	const skewed = (limit: number) => Math.floor(limit ** random()) % limit;
	const ids = (length: number) => Array.from({ length }, () => skewed(VOCABULARY));
	const words = (length: number) => Array.from({ length }, () => WORDS[skewed(WORDS.length)]!).join(" ");
	const perTurn = Math.floor((tokens - 7600) / turns);
	const sampled = Math.floor(perTurn * 0.4);
	const tools = Array.from({ length: 10 }, (_, at) => ({
		type: "function",
		function: { name: `tool${at}`, description: words(300), parameters: { type: "object" } },
	}));
	const messages: unknown[] = [
		{ role: "system", content: words(2000) },
		{ role: "user", content: words(50) },
	];
	let prompt = ids(7600);
	for (let index = 0; index < turns; index++) {
		const completionIds = ids(sampled);
		const texts = completionIds.map((id) => ` ${WORDS[id % WORDS.length]}`);
		const reply = {
			role: "assistant",
			content: texts.slice(sampled / 2).join(""),
			tool_calls: [
				{
					id: `call_${index}`,
					type: "function",
					function: {
						name: "bash",
						arguments: JSON.stringify({ command: texts.slice(0, sampled / 2).join("") }),
					},
				},
			],
		};
		yield aCall({
			index,
			request: {
				messages: [...messages],
				tools,
				params: { model: "m", ...NEUTRAL, stream: true, max_tokens: 4096 },
				patch: { logprobs: true },
			},
			response: { message: reply, finishReason: "tool_calls" },
			promptIds: prompt,
			completionIds,
			completionTexts: texts,
			logprobs: completionIds.map(() => Math.fround(-3 * random() ** 4)),
		});
		messages.push(reply, {
			role: "tool",
			tool_call_id: `call_${index}`,
			content: words(Math.floor(perTurn * 0.5)),
		});
		prompt = [...prompt, ...completionIds, ...ids(perTurn - sampled)];
	}
}
