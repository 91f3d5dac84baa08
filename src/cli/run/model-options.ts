import { UsageError } from "../../errors.ts";
import { ENDPOINT_NAMES } from "../../gateway/catalog.ts";
import { ContinuityChoice, type EndpointSpec, LogprobsMode } from "../../model/endpoint.ts";
import { Sampling } from "../../model/request.ts";
import { POLICY_NAMES } from "../../policy/names.ts";
import type { Arguments, Option } from "../command.ts";
import { didYouMean } from "../suggest.ts";

/** The options that say which model answers. */
export const MODEL_OPTIONS: Record<string, Option> = {
	policy: {
		value: "<name>",
		choices: POLICY_NAMES,
		help: "a built-in scripted model: oracle, noop, cheat-*, replay",
	},
	trace: { value: "<rollout>", help: "with --policy replay: the rollout to play back" },
	endpoint: {
		value: "<name>",
		choices: ENDPOINT_NAMES,
		help: "vllm, openai, hf_router, scripted, or a stored key: cred:<label>, pool:<name>, resolve:<words>",
	},
	"base-url": { value: "<url>", help: "any OpenAI-compatible server, ending in /v1" },
	model: { value: "<name>", help: "the model's name at that endpoint" },
	temperature: { value: "<number>", help: "of the sampling (default 1)" },
	"top-logprobs": { value: "<n>", help: "keep the n most likely alternatives to each token (default 0)" },
	continuity: {
		value: "<auto|off>",
		choices: ContinuityChoice.options,
		help: "off: let the engine render every prompt anew (default auto)",
	},
	"keep-reasoning": { help: "go on from a thinking reply also after a person's words" },
	"logprobs-mode": {
		value: "<mode>",
		choices: LogprobsMode.options,
		help: `what its logprobs are of: ${LogprobsMode.options.join(", ")}`,
	},
	"weight-version": { value: "<name>", help: "which weights the endpoint serves, for export --weights" },
	"api-key-env": { value: "<variable>", help: "the environment variable that holds the key" },
};

export function toEndpointSpec(
	args: Arguments,
	env: Record<string, string | undefined>,
	policies: readonly string[],
): EndpointSpec {
	const given = (names: string[]) => names.filter((name) => args.has(name));
	const clash = given(["endpoint", "base-url", "model", "logprobs-mode", "weight-version", "api-key-env"])[0];
	if (args.has("policy") && clash !== undefined) {
		throw new UsageError(`--policy and --${clash} contradict each other: give one of them.`, "contradiction");
	}
	if (args.has("trace") && args.text("policy") !== "replay") {
		throw new UsageError("--trace belongs to --policy replay.", "contradiction");
	}
	if (args.has("policy")) return toPolicy(args, policies);

	const apiKey = readKey(args.text("api-key-env"), env);
	const baseUrl = toBaseUrl(args.text("base-url"));
	const model = args.text("model");
	const logprobsMode = args.choice("logprobs-mode", LogprobsMode.options);
	const weightVersion = args.text("weight-version");
	const name = args.text("endpoint");
	if (name !== undefined) {
		return {
			type: "named",
			name,
			baseUrl,
			model,
			apiKey,
			logprobsMode,
			weightVersion,
		};
	}
	if (baseUrl === undefined) {
		throw new UsageError(
			"Which model? Give --policy oracle (no network), --endpoint <name>, or --base-url <url> with --model <name>.",
			"no_model",
		);
	}
	if (model === undefined) throw new UsageError("--base-url needs --model <name> as well.", "no_model");
	return {
		type: "url",
		baseUrl,
		model,
		dialect: "auto",
		apiKey,
		logprobsMode,
		weightVersion,
	};
}

/** What was said of the sampling; the rest is neutral. */
export function toSampling(args: Arguments): Sampling {
	const text = args.text("temperature");
	const continuity = args.choice("continuity", ContinuityChoice.options);
	const keepReasoning = args.has("keep-reasoning") || undefined;
	const topLogprobs = args.whole("top-logprobs", { least: 0, most: 20 });
	if (text === undefined) return Sampling.parse({ continuity, keepReasoning, topLogprobs });
	const temperature = text.trim() === "" ? Number.NaN : Number(text);
	const parsed = Sampling.safeParse({ temperature, continuity, keepReasoning, topLogprobs });
	if (parsed.success) return parsed.data;
	throw new UsageError(`--temperature wants a number from 0 to 10, not "${text}".`, "bad_option");
}

function toPolicy(args: Arguments, policies: readonly string[]): EndpointSpec {
	const policy = args.text("policy")!;
	if (!policies.includes(policy)) {
		throw new UsageError(
			`There is no policy "${policy}".${didYouMean(policy, policies)} Known: ${policies.join(", ")}.`,
			"unknown_policy",
		);
	}
	const trace = args.text("trace");
	if (policy === "replay" && trace === undefined) {
		throw new UsageError("--policy replay needs --trace <rollout>: which one to play back.", "no_trace");
	}
	return { type: "policy", policy, trace };
}

export function readKey(
	variable: string | undefined,
	env: Record<string, string | undefined>,
): string | undefined {
	if (variable === undefined) return undefined;
	const key = env[variable];
	if (key === undefined || key === "") {
		throw new UsageError(`--api-key-env: the environment variable ${variable} is not set.`, "no_key");
	}
	return key;
}

export function toBaseUrl(text: string | undefined): string | undefined {
	if (text === undefined) return undefined;
	const url = URL.canParse(text) ? new URL(text) : null;
	if (url === null || !/^https?:$/.test(url.protocol)) {
		throw new UsageError(
			`--base-url wants an http(s) address such as http://127.0.0.1:8001/v1, not "${text}".`,
			"bad_option",
		);
	}
	return text;
}

/** How the arguments of the other doors are called here. */
const FLAGS: Record<string, string> = {
	base_url: "--base-url",
	api_key: "--api-key-env <variable>",
	model: "--model <name>",
};

/** What was refused is said in the words that were typed. */
export function inFlags(message: string): string {
	return message.replaceAll(/\b(base_url|api_key)\b|(?<=pass |and )\bmodel\b/g, (word) => FLAGS[word]!);
}

/** Where no server is between, there is none to speak of. */
export function inFlagsHere(message: string): string {
	return inFlags(message)
		.replace(" on the server", "")
		.replace("the server's own ", "")
		.replace("the server's key", "its key");
}
