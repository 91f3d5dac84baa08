import type { Dispatcher } from "undici";
import { messageOf } from "../../errors.ts";
import type { Endpoint, LogprobsMode } from "../../model/endpoint.ts";
import type { Sampling } from "../../model/request.ts";
import { isNeutralSampling } from "../../model/sampling.ts";
import type { JsonObject } from "../protocols/protocol.ts";
import type { UpstreamFault } from "../upstream/fault.ts";
import { ask, type Questioner } from "./ask.ts";
import { DIALECTS } from "./dialect.ts";
import { type Engine, isOutdated, isTelling, learnFromRefusal, withoutRefused } from "./engine.ts";
import { findEngine } from "./find.ts";
import { findLogprobsMode } from "./logprobs-mode.ts";

const MAX_ENGINES = 1000;
/** An engine behind an address may be restarted with other flags. */
const MEMORY_MS = 10 * 60_000;
/** One that could not be asked is asked again soon. */
const GUESS_MS = 30_000;
/** How long an endpoint may take over a few small questions; an engine's very first token can take twenty seconds. */
const ANSWER_MS = 30_000;
const MAX_QUESTIONS = 12;

interface Entry {
	engine: Promise<Engine>;
	until: number;
}

/**
 * Remembers engines by base URL and model, for a while. Whatever is remembered comes from requests of our own: what an agent
 * sends is hostile, and an engine's refusal repeats its words.
 */
export class EngineBook {
	readonly #entries = new Map<string, Entry>();
	readonly #dispatcher: Dispatcher;
	readonly #now: () => number;

	constructor(dispatcher: Dispatcher, now: () => number = Date.now) {
		this.#dispatcher = dispatcher;
		this.#now = now;
	}

	/** Never rejects: an endpoint that cannot be asked is taken for the richest dialect. */
	know(endpoint: Endpoint): Promise<Engine> {
		const key = `${endpoint.baseUrl} ${endpoint.model} ${endpoint.dialect}`;
		const known = this.#entries.get(key);
		if (known && this.#now() < known.until) return known.engine;
		const entry: Entry = {
			engine: findEngine(this.#questioner(endpoint)),
			until: this.#now() + MEMORY_MS,
		};
		void entry.engine.then(({ isGuess }) => {
			if (isGuess) entry.until = this.#now() + GUESS_MS;
		});
		this.#entries.delete(key);
		this.#entries.set(key, entry);
		if (this.#entries.size > MAX_ENGINES) this.#entries.delete(this.#entries.keys().next().value!);
		return entry.engine;
	}

	/**
	 * What the logprobs of an endpoint are of: as it says, or found out by three tokens and remembered. Only where it matters: under
	 * neutral sampling all modes are alike. Undefined when nobody knows.
	 */
	async logprobsMode(endpoint: Endpoint, sampling: Sampling): Promise<LogprobsMode | undefined> {
		if (endpoint.logprobsMode !== undefined || isNeutralSampling(sampling)) return endpoint.logprobsMode;
		return (await this.findLogprobsMode(endpoint)) ?? undefined;
	}

	/** The same, whether it matters or not; null when its answers do not show it. */
	async findLogprobsMode(endpoint: Endpoint): Promise<LogprobsMode | null> {
		const engine = await this.know(endpoint);
		if (!DIALECTS[engine.dialect].ids) return null;
		engine.logprobsMode ??= findLogprobsMode(this.#questioner(endpoint)).catch(() => {
			// It did not answer this time; the next rollout asks again.
			delete engine.logprobsMode;
			return null;
		});
		return await engine.logprobsMode;
	}

	/**
	 * An agent's call was refused in words that name fields of ours. Is it so? `question` is the same call with a conversation of our
	 * own. True: the call is worth another try with what is known now.
	 */
	async inquire(
		endpoint: Endpoint,
		engine: Engine,
		refused: { fault: UpstreamFault; body: JsonObject },
		question: JsonObject,
	): Promise<boolean> {
		if (!isTelling(refused.fault, refused.body)) return false;
		if (isOutdated(engine, refused.body)) return true;
		const key = JSON.stringify(question);
		if (engine.vain.has(key)) return false;
		const { hasLearnt } = await this.tryOut(endpoint, engine, question);
		if (!hasLearnt) engine.vain.add(key);
		return isOutdated(engine, refused.body);
	}

	/** Asks, and asks again without what was refused; says whether that taught anything, and what is still wrong in the end. */
	async tryOut(
		endpoint: Endpoint,
		engine: Engine,
		question: JsonObject,
	): Promise<{ hasLearnt: boolean; trouble: string | null }> {
		const questioner = this.#questioner(endpoint);
		let hasLearnt = false;
		for (let questions = 0; questions < MAX_QUESTIONS; questions += 1) {
			const asked = withoutRefused(question, engine);
			try {
				const reply = await ask(questioner, asked);
				if ("answer" in reply) return { hasLearnt, trouble: null };
				if (!learnFromRefusal(engine, reply.fault, asked)) return { hasLearnt, trouble: reply.fault.message };
			} catch (error) {
				return { hasLearnt, trouble: messageOf(error) };
			}
			hasLearnt = true;
		}
		return { hasLearnt, trouble: "the endpoint refuses one field after the other" };
	}

	#questioner(endpoint: Endpoint): Questioner {
		return { endpoint, dispatcher: this.#dispatcher, signal: AbortSignal.timeout(ANSWER_MS) };
	}
}
