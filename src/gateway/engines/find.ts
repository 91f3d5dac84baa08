import { untilTimeout } from "../../model/duration.ts";
import { isObject, toArray, toText } from "../protocols/protocol.ts";
import { ask, type Questioner, readAtMost, toQuestion } from "./ask.ts";
import type { KnownDialect } from "./dialect.ts";
import { type Engine, learnFromRefusal, withoutRefused } from "./engine.ts";

const LIST_MS = 5000;
const MAX_LIST_BYTES = 4 * 1024 * 1024;
const MAX_NAME = 200;
/** A strict server refuses one field at a time. */
const MAX_QUESTIONS = 6;

/** By address where that is telling; else by one look at the list of models, which costs the engine nothing; else by one token. */
export async function findEngine(questioner: Questioner): Promise<Engine> {
	const { endpoint } = questioner;
	const engine: Engine = {
		dialect: "vllm",
		isGuess: false,
		name: null,
		refused: new Set(),
		wantsMaxCompletionTokens: false,
		dishonoured: 0,
		vain: new Set(),
	};
	if (endpoint.dialect === "auto") await tellDialect(engine, questioner);
	else engine.dialect = endpoint.dialect;
	engine.wantsMaxCompletionTokens ||= engine.dialect === "openai" && /^(o\d|gpt-[5-9])/.test(endpoint.model);
	return engine;
}

const BY_ADDRESS: Readonly<Record<string, KnownDialect>> = {
	"api.openai.com": "openai",
	"router.huggingface.co": "hf_router",
};

async function tellDialect(engine: Engine, questioner: Questioner): Promise<void> {
	const known = BY_ADDRESS[new URL(questioner.endpoint.baseUrl).hostname];
	engine.name = known ?? (await ownerOf(questioner));
	const owner = engine.name?.toLowerCase();
	const dialect = known ?? (["vllm", "sglang"] as const).find((name) => owner?.includes(name));
	if (dialect !== undefined) engine.dialect = dialect;
	else await tellByToken(engine, questioner);
}

/** Asks for one token with everything that any engine could give with it. */
async function tellByToken(engine: Engine, questioner: Questioner): Promise<void> {
	const question = { ...toQuestion({}), logprobs: true, top_logprobs: 0, return_token_ids: true };
	for (let questions = 0; questions < MAX_QUESTIONS; questions += 1) {
		const asked = withoutRefused(question, engine);
		try {
			const reply = await ask(questioner, asked);
			if ("answer" in reply) {
				engine.dialect = dialectOf(reply.answer?.choices);
				// What was tried on an unknown engine is no loss of the dialect that it turned out to speak.
				engine.refused.clear();
				return;
			}
			if (!learnFromRefusal(engine, reply.fault, asked)) break;
		} catch {
			// Away, or no chat endpoint at all: the rollout's own calls will say what is wrong.
			break;
		}
	}
	engine.isGuess = true;
}

function dialectOf(choices: unknown): KnownDialect {
	const choice = toArray(choices)[0];
	if (!isObject(choice)) return "plain";
	if (Array.isArray(choice.token_ids)) return "vllm";
	if (Array.isArray(choice.response_token_ids)) return "sglang";
	return isObject(choice.logprobs) ? "openai" : "plain";
}

async function ownerOf({ endpoint, dispatcher, signal }: Questioner): Promise<string | null> {
	const url = new URL(endpoint.baseUrl);
	try {
		const key = endpoint.tokens ? await endpoint.tokens.fresh() : endpoint.apiKey;
		const { statusCode, body } = await dispatcher.request({
			origin: url.origin,
			path: `${url.pathname.replace(/\/+$/, "")}/models`,
			method: "GET",
			headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
			signal: untilTimeout(LIST_MS, signal),
		});
		if (statusCode !== 200) {
			await body.dump();
			return null;
		}
		const list: unknown = JSON.parse(await readAtMost(body, MAX_LIST_BYTES));
		const models = toArray(isObject(list) ? list.data : null).filter(isObject);
		const owner = toText((models.find((model) => model.id === endpoint.model) ?? models[0])?.owned_by);
		return owner?.slice(0, MAX_NAME) ?? null;
	} catch {
		// Not every endpoint lists its models.
		return null;
	}
}
