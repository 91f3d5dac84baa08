import type { DialectName } from "../../model/endpoint.ts";
import { SAMPLING_NAMES, type SamplingName } from "../../model/sampling.ts";

/** A dialect that is known; `auto` is only the wish to find out. */
export type KnownDialect = Exclude<DialectName, "auto">;

/** How one kind of engine hands out what was sampled, over chat completions. */
export interface Dialect {
	name: KnownDialect;
	/** Whether ids and logprobs come while streaming. If not, the engine is asked unstreamed and we stream. */
	streams: boolean;
	ids: boolean;
	logprobs: boolean;
	/** Request fields to add; a refused one is dropped and remembered. */
	flags: Readonly<Record<string, unknown>>;
	/**
	 * Sampling fields that it takes and that are always said. Empty where no ids are handed out: nothing there can be trained
	 * on, and strict servers refuse what they do not know.
	 */
	sampling: readonly SamplingName[];
	/** Where it renders a prompt without answering it, and the field that takes a prompt as ids; null where neither is. */
	tokenizePath: string | null;
	toPrompt: ((ids: readonly number[]) => Record<string, unknown>) | null;
	/** Takes chat_template_kwargs. */
	templates: boolean;
	/** Reads replayed thinking from `reasoning`, `reasoning_content` or, by version, only one of them. */
	replaysReasoning: boolean;
}

export const DIALECTS: Readonly<Record<KnownDialect, Dialect>> = {
	vllm: {
		name: "vllm",
		streams: true,
		ids: true,
		logprobs: true,
		flags: { return_token_ids: true, include_reasoning: true },
		sampling: SAMPLING_NAMES,
		tokenizePath: "/tokenize",
		toPrompt: (ids) => ({ kv_transfer_params: { prompt_token_ids: ids } }),
		templates: true,
		replaysReasoning: true,
	},
	sglang: {
		name: "sglang",
		streams: false,
		ids: true,
		logprobs: true,
		flags: { return_token_ids: true, return_meta_info: true },
		sampling: SAMPLING_NAMES,
		tokenizePath: "/v1/tokenize",
		toPrompt: (ids) => ({ input_ids: ids }),
		templates: true,
		replaysReasoning: false,
	},
	openai: {
		name: "openai",
		streams: true,
		ids: false,
		logprobs: true,
		flags: {},
		sampling: [],
		tokenizePath: null,
		toPrompt: null,
		templates: false,
		replaysReasoning: false,
	},
	hf_router: {
		name: "hf_router",
		streams: true,
		ids: false,
		logprobs: true,
		flags: {},
		sampling: [],
		tokenizePath: null,
		toPrompt: null,
		templates: true,
		replaysReasoning: false,
	},
	plain: {
		name: "plain",
		streams: true,
		ids: false,
		logprobs: false,
		flags: {},
		sampling: [],
		tokenizePath: null,
		toPrompt: null,
		templates: true,
		replaysReasoning: false,
	},
};
