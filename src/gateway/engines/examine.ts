import { Agent } from "undici";
import type { Endpoint, LogprobsMode } from "../../model/endpoint.ts";
import { Sampling } from "../../model/request.ts";
import { patchRequest } from "../patch.ts";
import { chat } from "../protocols/openai-chat.ts";
import { lookupOpen } from "../upstream/addresses.ts";
import { toQuestion } from "./ask.ts";
import { DIALECTS, type KnownDialect } from "./dialect.ts";
import { EngineBook } from "./engines.ts";

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
		const question = patchRequest({
			protocol: chat,
			body: toQuestion({ stream: true, tools: ["any"] }),
			endpoint,
			sampling: Sampling.parse({}),
			dialect,
			refused,
			wantsMaxCompletionTokens: engine.wantsMaxCompletionTokens,
			captures: true,
			outputTokensLeft: null,
		}).body;
		const { trouble } = await book.tryOut(endpoint, engine, question);
		const logprobsMode = endpoint.logprobsMode ?? (trouble ? null : await book.findLogprobsMode(endpoint));
		const handsOutIds = DIALECTS[dialect].ids && !refused.has("return_token_ids");
		return { dialect, name, handsOutIds, refused: [...refused], logprobsMode, trouble };
	} finally {
		await dispatcher.destroy();
	}
}
