import type { Dispatcher } from "undici";
import type { Endpoint } from "../model/endpoint.ts";
import type { KnownDialect } from "./dialects/dialect.ts";

/** What the gateway has learnt of one endpoint; shared by all rollouts that use it. */
export interface Engine {
	dialect: KnownDialect;
	/** The dialect is a guess that answers may correct. */
	isGuess: boolean;
	name: string | null;
	/** Fields it refused; they are not sent again. */
	refused: Set<string>;
	wantsMaxCompletionTokens: boolean;
}

const MAX_ENGINES = 1000;

/** Remembers engines by base URL and model. */
export class EngineBook {
	readonly #engines = new Map<string, Promise<Engine>>();
	readonly #dispatcher: Dispatcher;

	constructor(dispatcher: Dispatcher) {
		this.#dispatcher = dispatcher;
	}

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

async function meet(endpoint: Endpoint, _dispatcher: Dispatcher): Promise<Engine> {
	const dialect = endpoint.dialect === "auto" ? "vllm" : endpoint.dialect;
	return {
		dialect,
		isGuess: endpoint.dialect === "auto",
		name: null,
		refused: new Set(),
		wantsMaxCompletionTokens: dialect === "openai" && /^(o\d|gpt-[5-9])/.test(endpoint.model),
	};
}
