import type { ModelCall } from "../../src/model/call.ts";
import { aCall } from "../export/calls.ts";

/** A small seeded generator: the same seed gives the same calls on every machine. */
export function seeded(seed: number): () => number {
	let state = (seed + 1) * 0x9e3779b9;
	return () => {
		state = (state + 0x6d2b79f5) | 0;
		let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
		mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
	};
}

interface Branch {
	ids: number[];
	messages: unknown[];
	tools: unknown[];
	sessionId: string;
}

const WORDS = [
	"",
	"read",
	"write\n",
	"élan",
	"日本語",
	"🦊",
	'"quoted"',
	"\u0000",
	"\ud800",
	"token_id:7",
	"x".repeat(300),
];

/** Conversations with everything that happens to them: forks, retries, lost ids, many branches, odd text. */
export function randomCalls(seed: number): ModelCall[] {
	const random = seeded(seed);
	const below = (limit: number) => Math.floor(random() * limit);
	const ids = (most: number) => Array.from({ length: below(most) }, () => below(150_000));
	const word = () => WORDS[below(WORDS.length)]!;
	const tools = Array.from({ length: 4 }, (_, at) => ({
		type: "function",
		function: { name: `tool${at}`, parameters: {} },
	}));
	const fresh = (): Branch => ({
		ids: ids(200),
		messages: [{ role: "system", content: word() }],
		tools: tools.slice(0, below(5)),
		sessionId: `ses_${below(100)}`,
	});
	const branches = Array.from({ length: 1 + below(12) }, fresh);
	const calls: ModelCall[] = [];
	for (let index = 0; index < 30; index++) {
		const at = below(branches.length);
		if (random() < 0.1) branches[at] = fresh();
		const branch = branches[at]!;
		if (random() < 0.15) branch.ids = branch.ids.slice(0, below(branch.ids.length + 1));
		if (random() < 0.15) branch.messages = branch.messages.slice(0, below(branch.messages.length + 1));
		branch.ids = [...branch.ids, ...ids(60)];
		branch.messages = [...branch.messages, { role: "user", content: word(), n: below(9) }];
		const withIds = random() < 0.8;
		const complete = random() < 0.85;
		const completionIds = withIds ? ids(80) : [];
		const message = random() < 0.9 ? { role: "assistant", content: word() } : null;
		const retryable = calls.findLast((call) => !call.complete && !call.superseded);
		const retryOf = retryable && random() < 0.3 ? retryable : null;
		if (retryOf) retryOf.superseded = true;
		calls.push(
			aCall({
				index,
				retryOf: retryOf?.index ?? null,
				purpose: (["main", "subagent", "title", "compaction"] as const)[below(4)]!,
				sessionId: branch.sessionId,
				parentSessionId: random() < 0.3 ? "ses_main" : null,
				request: {
					messages: branch.messages,
					tools: branch.tools,
					params: { seed: below(5) },
					patch: { stop: null },
				},
				response: { message, finishReason: complete ? "stop" : null },
				usage:
					random() < 0.8 ? { promptTokens: below(1000), completionTokens: below(50), cachedTokens: 3 } : null,
				promptIds: withIds ? branch.ids : [],
				completionIds,
				completionTexts: completionIds.map(word),
				logprobs: random() < 0.9 ? completionIds.map(() => Math.fround(-10 * random())) : [],
				invalidTokens: random() < 0.1 ? [0] : [],
				complete,
				error: complete ? null : { code: "upstream_dropped", message: word() },
			}),
		);
		branch.ids = [...branch.ids, ...completionIds];
		if (message) branch.messages = [...branch.messages, message];
	}
	return calls;
}
