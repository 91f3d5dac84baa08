import type { Dispatcher } from "undici";
import type { Endpoint } from "../../model/endpoint.ts";
import { type EngineAnswer, isObject, type JsonObject, toArray, toText } from "../protocols/protocol.ts";
import type { UpstreamFault } from "../upstream/fault.ts";
import type { KnownDialect } from "./dialect.ts";

/** What the gateway has learnt of one endpoint; shared by all rollouts that use it. */
export interface Engine {
	dialect: KnownDialect;
	/** The dialect is a guess that answers may correct. */
	isGuess: boolean;
	/** As the endpoint calls itself. */
	name: string | null;
	/** Fields it refused; they are not sent again. */
	refused: Set<string>;
	wantsMaxCompletionTokens: boolean;
}

const MAX_ENGINES = 1000;
const PROBE_MS = 5000;
const MAX_LIST_BYTES = 4 * 1024 * 1024;
const MAX_NAME = 200;

/** Remembers engines by base URL and model. */
export class EngineBook {
	readonly #engines = new Map<string, Promise<Engine>>();
	readonly #dispatcher: Dispatcher;

	constructor(dispatcher: Dispatcher) {
		this.#dispatcher = dispatcher;
	}

	/** Never rejects: an endpoint that cannot be asked is taken for the richest dialect and corrected by its answers. */
	know(endpoint: Endpoint): Promise<Engine> {
		const key = `${endpoint.baseUrl} ${endpoint.model} ${endpoint.dialect}`;
		const known = this.#engines.get(key);
		if (known) return known;
		const engine = meet(endpoint, this.#dispatcher);
		this.#engines.set(key, engine);
		if (this.#engines.size > MAX_ENGINES) this.#engines.delete(this.#engines.keys().next().value!);
		return engine;
	}
}

async function meet(endpoint: Endpoint, dispatcher: Dispatcher): Promise<Engine> {
	const found =
		endpoint.dialect === "auto"
			? await find(endpoint, dispatcher)
			: { dialect: endpoint.dialect, name: null };
	const dialect = found.dialect ?? "vllm";
	return {
		dialect,
		isGuess: found.dialect === null,
		name: found.name,
		refused: new Set(),
		wantsMaxCompletionTokens: dialect === "openai" && /^(o\d|gpt-[5-9])/.test(endpoint.model),
	};
}

/** By address where that is telling; else by one look at the list of models, which costs the engine nothing. */
async function find(
	endpoint: Endpoint,
	dispatcher: Dispatcher,
): Promise<{ dialect: KnownDialect | null; name: string | null }> {
	const { hostname } = new URL(endpoint.baseUrl);
	if (hostname === "api.openai.com") return { dialect: "openai", name: "openai" };
	if (hostname === "router.huggingface.co") return { dialect: "hf_router", name: "hf_router" };
	const owner = await ownerOf(endpoint, dispatcher);
	const dialect = (["vllm", "sglang"] as const).find((name) => owner?.toLowerCase().includes(name)) ?? null;
	return { dialect, name: owner };
}

async function ownerOf(endpoint: Endpoint, dispatcher: Dispatcher): Promise<string | null> {
	const url = new URL(endpoint.baseUrl);
	try {
		const { statusCode, body } = await dispatcher.request({
			origin: url.origin,
			path: `${url.pathname.replace(/\/+$/, "")}/models`,
			method: "GET",
			headers: endpoint.apiKey === undefined ? {} : { authorization: `Bearer ${endpoint.apiKey}` },
			signal: AbortSignal.timeout(PROBE_MS),
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
		// Not every endpoint lists its models; the first call finds out the rest.
		return null;
	}
}

/** An endpoint is anybody's: what it sends must fit. */
async function readAtMost(body: AsyncIterable<Buffer>, maxBytes: number): Promise<string> {
	const chunks: Buffer[] = [];
	let size = 0;
	for await (const chunk of body) {
		size += chunk.length;
		if (size > maxBytes) throw new Error("the list of models is too long");
		chunks.push(chunk);
	}
	return Buffer.concat(chunks).toString("utf8");
}

/** Fields of ours that an engine may do without. */
const DROPPABLE = new Set([
	"logprobs",
	"top_logprobs",
	"return_token_ids",
	"return_meta_info",
	"include_reasoning",
	"stream_options",
	"chat_template_kwargs",
	"temperature",
	"top_p",
	"seed",
]);

const TELLING = new Set([...DROPPABLE, "max_completion_tokens"]);

/** Whether a word that we would learn from stands in what the agent wrote, other than as the field itself. */
export function mayQuote(fault: UpstreamFault, body: JsonObject): boolean {
	if (fault.code !== "provider_rejected") return false;
	const words = [...TELLING].filter((word) => fault.message.includes(word));
	if (words.length === 0) return false;
	const written = JSON.stringify(
		Object.entries(body).map(([key, value]) => [TELLING.has(key) ? "" : key, value]),
	);
	return words.some((word) => written.includes(word));
}

/** A refused field is left out from now on, for everybody who uses this endpoint. True: the call is worth another try. */
export function learnFromFault(
	engine: Engine,
	fault: UpstreamFault,
	body: JsonObject,
	patch: JsonObject,
): boolean {
	if (fault.code !== "provider_rejected") return false;
	const text = fault.message;
	if (!engine.wantsMaxCompletionTokens && "max_tokens" in body && /max_completion_tokens/.test(text)) {
		engine.wantsMaxCompletionTokens = true;
		return true;
	}
	if (engine.isGuess && engine.dialect === "vllm" && /return_token_ids/.test(text) && /stream/i.test(text)) {
		engine.dialect = "sglang";
		engine.isGuess = false;
		return true;
	}
	const refused = Object.keys(patch).filter(
		(field) => patch[field] !== null && DROPPABLE.has(field) && new RegExp(`\\b${field}\\b`).test(text),
	);
	for (const field of refused) engine.refused.add(field);
	return refused.length > 0;
}

/** A guess is settled by the first answer with anything in it. */
export function learnFromAnswer(engine: Engine, { tokens, pieces }: EngineAnswer): void {
	if (!engine.isGuess || pieces === 0) return;
	engine.isGuess = false;
	if (tokens.ids.length > 0) return;
	engine.dialect = tokens.logprobs.length > 0 ? "openai" : "plain";
}

export function toLosses(engine: Engine): string[] {
	return [...engine.refused].map((field) => `${field} refused`);
}
