import { Agent } from "undici";
import type { Endpoint, LogprobsMode } from "../../model/endpoint.ts";
import { Sampling } from "../../model/request.ts";
import { patchRequest } from "../patch.ts";
import { chat } from "../protocols/openai-chat.ts";
import type { JsonObject } from "../protocols/protocol.ts";
import { tryStitching } from "../stitch/try-out.ts";
import { lookupOpen } from "../upstream/addresses.ts";
import { toQuestion } from "./ask.ts";
import { DIALECTS, type KnownDialect } from "./dialect.ts";
import { EngineBook } from "./engines.ts";

const ANSWER_MS = 30_000;

/** What the gateway finds out about the engine behind an endpoint. */
export interface EngineReport {
	dialect: KnownDialect;
	/** As the endpoint calls itself. */
	name: string | null;
	handsOutIds: boolean;
	/** Fields it does not take. */
	refused: string[];
	/** Null when its answers do not show it. */
	logprobsMode: LogprobsMode | null;
	/** Why sessions cannot be kept one chain of tokens on it; null when they can, absent where there are no ids. */
	stitching?: string | null;
	/** Why it gave no token; null when it did. */
	trouble: string | null;
}

/** Asks the endpoint for a few tokens, as a rollout would. */
export async function examineEndpoint(endpoint: Endpoint): Promise<EngineReport> {
	const dispatcher = new Agent({ connect: { lookup: lookupOpen } });
	try {
		const book = new EngineBook(dispatcher);
		const engine = await book.know(endpoint);
		const { dialect, name, refused } = engine;
		const toAsk = (like: JsonObject) =>
			patchRequest({
				protocol: chat,
				body: toQuestion({ ...like, tools: ["any"] }),
				endpoint,
				sampling: Sampling.parse({}),
				dialect,
				refused,
				wantsMaxCompletionTokens: engine.wantsMaxCompletionTokens,
				captures: true,
				outputTokensLeft: null,
			}).body;
		const { trouble } = await book.tryOut(endpoint, engine, toAsk({ stream: true }));
		const logprobsMode = endpoint.logprobsMode ?? (trouble ? null : await book.findLogprobsMode(endpoint));
		const handsOutIds = DIALECTS[dialect].ids && !refused.has("return_token_ids");
		const report = { dialect, name, handsOutIds, refused: [...refused], logprobsMode, trouble };
		if (trouble !== null || !handsOutIds || DIALECTS[dialect].toPrompt === null) return report;
		const questioner = { endpoint, dispatcher, signal: AbortSignal.timeout(ANSWER_MS) };
		return { ...report, stitching: await tryStitching(questioner, DIALECTS[dialect], toAsk({})) };
	} finally {
		await dispatcher.destroy();
	}
}
