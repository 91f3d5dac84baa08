import type { Dispatcher } from "undici";
import type { Endpoint } from "../../model/endpoint.ts";
import { readAtMost } from "../engines/ask.ts";
import type { Dialect } from "../engines/dialect.ts";
import { toBearer } from "../protocols/openai.ts";
import { isObject, type JsonObject, toArray } from "../protocols/protocol.ts";
import { commonSuffix, Doubt } from "./boundary.ts";

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** A render that takes longer is not worth waiting for: the plain request goes out. */
const RENDER_MS = 2_000;

/**
 * What an engine's own template makes of a conversation, and whether it can be relied upon. One for each rollout: an agent's
 * odd request must not make others doubt.
 */
export class Renderer {
	readonly #endpoint: Endpoint;
	readonly #dialect: Dialect;
	readonly #dispatcher: Dispatcher;
	#closers: Promise<ReadonlySet<number>> | null = null;
	/** Null until the first call has shown it. */
	#calibration: Promise<string | null> | null = null;
	/** Why nothing is stitched in this rollout any more. */
	trouble: string | null = null;
	maxModelLength = Number.POSITIVE_INFINITY;

	constructor(endpoint: Endpoint, dialect: Dialect, dispatcher: Dispatcher) {
		this.#endpoint = endpoint;
		this.#dialect = dialect;
		this.#dispatcher = dispatcher;
	}

	/** The ids of a prompt, as the engine would make them itself. */
	async render(body: JsonObject): Promise<number[]> {
		const { baseUrl, tokens, model } = this.#endpoint;
		const apiKey = tokens ? await tokens.fresh() : this.#endpoint.apiKey;
		const url = new URL(baseUrl);
		const response = await this.#dispatcher.request({
			origin: url.origin,
			path: `${url.pathname.replace(/\/v1\/?$/, "")}${this.#dialect.tokenizePath}`,
			method: "POST",
			headers: {
				"content-type": "application/json",
				...(apiKey === undefined ? {} : toBearer(apiKey)),
			},
			body: JSON.stringify({
				model,
				messages: body.messages,
				tools: body.tools,
				...(body.chat_template_kwargs === undefined
					? {}
					: { chat_template_kwargs: body.chat_template_kwargs }),
			}),
			signal: AbortSignal.timeout(RENDER_MS),
		});
		const text = await readAtMost(response.body, MAX_ANSWER_BYTES);
		if (response.statusCode === 404 || response.statusCode === 405) {
			this.trouble = "the engine does not render prompts";
			throw new Doubt(this.trouble);
		}
		if (response.statusCode !== 200) throw new Doubt("the engine refused to render");
		const answer: unknown = JSON.parse(text);
		if (!isObject(answer)) throw new Doubt("the engine's render is no object");
		const { max_model_len: length } = answer;
		// SGLang says -1 where its tokenizer knows of no limit.
		if (typeof length === "number" && length > 0) this.maxModelLength = length;
		return toArray(answer.tokens) as number[];
	}

	/** Once: what it renders of a call must be what it used for that call. */
	calibrate(body: JsonObject, promptIds: readonly number[]): void {
		this.#calibration ??= this.render(body).then(
			(rendered) => {
				const isSame =
					rendered.length === promptIds.length && rendered.every((id, at) => id === promptIds[at]);
				this.trouble ??= isSame ? null : "the engine renders otherwise than it prompts";
				return this.trouble;
			},
			(error: unknown) => this.fail(error),
		);
	}

	/** A doubt is about one conversation. Anything else is the engine's or the line's, and nobody waits for it twice. */
	fail(error: unknown): string {
		if (error instanceof Doubt) return error.message;
		this.trouble ??= "the engine did not render in time";
		return this.trouble;
	}

	/** Why this engine cannot be stitched on, now; null when it can. */
	async doubt(): Promise<string | null> {
		if (this.trouble !== null) return this.trouble;
		if (this.#calibration === null) return "the engine's renders were not compared yet";
		return await this.#calibration;
	}

	/** What the template puts right behind a reply of plain text: before a person's words, and before a tool's. */
	closers(): Promise<ReadonlySet<number>> {
		this.#closers ??= this.#learnClosers().catch((error: unknown) => {
			this.#closers = null;
			throw error;
		});
		return this.#closers;
	}

	async #learnClosers(): Promise<ReadonlySet<number>> {
		const found = new Set<number>();
		const nexts = [
			{ role: "user", content: "y" },
			{ role: "tool", tool_call_id: "c", content: "y" },
		];
		for (const next of nexts) {
			const renders = ["xq", "zk"].map((word) =>
				this.render({
					messages: [{ role: "user", content: "x" }, { role: "assistant", content: word }, next],
				}),
			);
			try {
				const [one, other] = await Promise.all(renders);
				found.add(commonSuffix(one!, other!)[0]!);
			} catch (error) {
				// A template may refuse a tool's word without a call before it; the other one is enough.
				if (!(error instanceof Doubt)) throw error;
			}
		}
		if (found.size === 0) throw new Doubt("the end of a turn is not known");
		return found;
	}
}
