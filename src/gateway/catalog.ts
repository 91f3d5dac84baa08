import type { z } from "zod";
import { UsageError } from "../errors.ts";
import { isMetadataAddress } from "../model/addresses.ts";
import type { Credential } from "../model/credential.ts";
import {
	ContinuityChoice,
	type DialectName,
	type Endpoint,
	type EndpointSpec,
	LogprobsMode,
} from "../model/endpoint.ts";
import { nearest } from "../model/nearest.ts";

const MAX_URL = 2048;

type Environment = Record<string, string | undefined>;
type ResolvableSpec = Exclude<EndpointSpec, { type: "policy" }>;
export type NamedSpec = Extract<EndpointSpec, { type: "named" }>;

/** The built-in scripted model needs no URL; the rollout stage hands it to the policy server. */
export const SCRIPTED = "scripted";

interface Entry {
	name: string;
	urlVariable: string;
	keyVariable: string;
	modelVariable: string;
	defaultUrl: string | null;
	/** A placeholder engines without a key accept; not a secret. */
	placeholderKey: string | null;
	defaultModel: string;
	dialect: DialectName;
	disableThinking: boolean;
}

const ENTRIES: readonly Entry[] = [
	{
		name: "vllm",
		urlVariable: "VLLM_URL",
		keyVariable: "VLLM_API_KEY",
		modelVariable: "VLLM_MODEL",
		defaultUrl: null,
		placeholderKey: "intercepted",
		defaultModel: "Qwen/Qwen3.5-4B",
		dialect: "vllm",
		disableThinking: true,
	},
	{
		name: "openai",
		urlVariable: "OPENAI_BASE_URL",
		keyVariable: "OPENAI_API_KEY",
		modelVariable: "OPENAI_MODEL",
		defaultUrl: "https://api.openai.com/v1",
		placeholderKey: null,
		defaultModel: "gpt-4o-mini",
		dialect: "openai",
		disableThinking: false,
	},
	{
		name: "hf_router",
		urlVariable: "HF_ROUTER_BASE_URL",
		keyVariable: "HF_ROUTER_API_KEY",
		modelVariable: "HF_ROUTER_MODEL",
		defaultUrl: "https://router.huggingface.co/v1",
		placeholderKey: null,
		defaultModel: "Qwen/Qwen3-4B-Instruct-2507:nscale",
		dialect: "hf_router",
		disableThinking: false,
	},
];

export const ENDPOINT_NAMES: readonly string[] = [...ENTRIES.map((entry) => entry.name), SCRIPTED];

/** An endpoint whose key is a stored credential: one by its label, any one of a pool, or whichever the resolver names. */
const STORED = /^(cred|pool|resolve):(.+)$/;

/** Which credential an endpoint asks for. */
export interface CredentialAsk {
	type: "cred" | "pool" | "resolve";
	name: string;
}

/** Null when it asks for none. A credential brings its own address and key. */
export function credentialOf(spec: EndpointSpec): CredentialAsk | null {
	const [, type, name] = (spec.type === "named" && STORED.exec(spec.name)) || [];
	if (type === undefined || spec.type !== "named") return null;
	for (const [argument, value] of [
		["base_url", spec.baseUrl],
		["api_key", spec.apiKey],
	] as const)
		if (present(value) !== undefined)
			throw new UsageError(
				`endpoint "${spec.name}" is a stored credential: leave out ${argument}`,
				"endpoint_conflict",
			);
	return { type: type as CredentialAsk["type"], name: name! };
}

/** The model that the caller wants instead of the credential's own. */
export function modelIn(spec: NamedSpec): string | undefined {
	return present(spec.model);
}

/** A stored credential as an endpoint; what the caller says of the model goes before what is stored. */
export function resolveCredential(spec: NamedSpec, { label, endpoint }: Credential, key: string): Endpoint {
	if (endpoint === null)
		throw new UsageError(
			`the credential ${label} is a login of the agent's own: no endpoint can carry it`,
			"endpoint_not_configured",
		);
	return {
		name: spec.name,
		baseUrl: normaliseBaseUrl(endpoint.baseUrl, "base_url"),
		model: modelIn(spec) ?? endpoint.model,
		apiKey: checkedKey(key, "the stored key")!,
		dialect: spec.dialect ?? endpoint.dialect,
		logprobsMode: spec.logprobsMode,
		continuity: spec.continuity,
		disableThinking: false,
	};
}

/** Each field: what the caller said, else the environment, else the default. `"policy"` stands for the scripted model. */
export function resolveEndpoint(spec: ResolvableSpec, env: Environment): Endpoint | "policy" {
	if (spec.type === "url") {
		const baseUrl = normaliseBaseUrl(spec.baseUrl, "base_url");
		const apiKey = checkedKey(spec.apiKey, "api_key");
		return {
			name: new URL(baseUrl).host,
			baseUrl,
			model: spec.model,
			apiKey,
			dialect: spec.dialect,
			logprobsMode: spec.logprobsMode,
			weightVersion: spec.weightVersion,
			continuity: spec.continuity,
			disableThinking: false,
		};
	}
	if (spec.name === SCRIPTED) return resolveScripted(spec);
	return resolveNamed(findEntry(spec.name), spec, env);
}

export interface EndpointListing {
	name: string;
	configured: boolean;
	baseUrl: string | null;
	model: string | null;
	note: string;
}

/** What the catalog knows of each name, never a key. */
export function listEndpoints(env: Environment): EndpointListing[] {
	return [
		...ENTRIES.map((entry) => listEntry(entry, env)),
		{
			name: SCRIPTED,
			configured: true,
			baseUrl: null,
			model: "oracle",
			note: "Built in: plays the task's solution through the real agent; needs no network and no key",
		},
	];
}

/** `vllm://<repo>`, `hf-router://<repo>:<provider>`, `scripted://<policy>`: an endpoint and its model in one word. */
export function parseModelKey(
	modelKey: string,
	options: { vllmUrl?: string | undefined; hfToken?: string | undefined } = {},
): EndpointSpec {
	const vllmUrl = present(options.vllmUrl);
	const hfToken = present(options.hfToken);
	const [, scheme, model] = /^([a-z-]+):\/\/(\S+)$/.exec(modelKey.trim()) ?? [];
	if (scheme === "vllm" && model !== undefined) {
		if (hfToken !== undefined)
			throw new UsageError(
				"hf_token goes with model_key hf-router://…; a vllm:// model takes vllm_url",
				"bad_model_key",
			);
		// The caller's own server gets the placeholder, so that no key of ours can follow.
		return {
			type: "named",
			name: "vllm",
			model,
			...(vllmUrl ? { baseUrl: vllmUrl, apiKey: "intercepted" } : {}),
		};
	}
	if (scheme === "hf-router" && model !== undefined) {
		if (vllmUrl !== undefined)
			throw new UsageError(
				"vllm_url goes with model_key vllm://…; an hf-router:// model takes hf_token",
				"bad_model_key",
			);
		return { type: "named", name: "hf_router", model, ...(hfToken ? { apiKey: hfToken } : {}) };
	}
	if (scheme === SCRIPTED && model !== undefined && vllmUrl === undefined && hfToken === undefined)
		return { type: "policy", policy: model };
	throw new UsageError(
		`model_key ${JSON.stringify(modelKey.slice(0, 200))} is not understood: write vllm://<repo>, hf-router://<repo>:<provider> or scripted://<policy>`,
		"bad_model_key",
	);
}

/** http or https, nothing but a host and a path, ending in /v1. */
export function normaliseBaseUrl(text: string, argument: string): string {
	if (text.length > MAX_URL)
		throw new UsageError(`${argument} is longer than ${MAX_URL} characters`, "bad_endpoint_url");
	const url = URL.parse(text.trim());
	if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
		throw new UsageError(`${argument} must be an http:// or https:// URL`, "bad_endpoint_url");
	if (url.username !== "" || url.password !== "")
		throw new UsageError(
			`${argument} must not contain a user or password; pass the key as api_key`,
			"bad_endpoint_url",
		);
	if (url.search !== "" || url.hash !== "")
		throw new UsageError(`${argument} must end with its path, without ? or #`, "bad_endpoint_url");
	if (isMetadataAddress(url.hostname.replace(/^\[|\]$/g, "")))
		throw new UsageError(`${argument} must not be a link-local address`, "bad_endpoint_url");
	const path = url.pathname.replace(/\/+$/, "").replace(/\/chat\/completions$/, "");
	return url.origin + (path.endsWith("/v1") ? path : `${path}/v1`);
}

function resolveScripted(spec: NamedSpec): "policy" {
	for (const [argument, value] of [
		["base_url", spec.baseUrl],
		["api_key", spec.apiKey],
	] as const)
		if (present(value) !== undefined)
			throw new UsageError(`endpoint "scripted" is built in: leave out ${argument}`, "endpoint_conflict");
	return "policy";
}

function resolveNamed(entry: Entry, spec: NamedSpec, env: Environment): Endpoint {
	const serverUrl = serverBaseUrl(entry, env);
	const given = present(spec.baseUrl);
	const baseUrl = given === undefined ? serverUrl : normaliseBaseUrl(given, "base_url");
	if (baseUrl === null)
		throw new UsageError(
			`endpoint "${entry.name}" has no address: pass base_url, or set ${entry.urlVariable} on the server`,
			"endpoint_not_configured",
		);
	return {
		name: entry.name,
		baseUrl,
		model: present(spec.model) ?? present(env[entry.modelVariable]) ?? entry.defaultModel,
		apiKey: chooseKey(entry, spec, env, baseUrl === serverUrl),
		dialect: spec.dialect ?? entry.dialect,
		logprobsMode: spec.logprobsMode ?? choice(entry, env, "VLLM_LOGPROBS_MODE", LogprobsMode),
		weightVersion: spec.weightVersion,
		continuity: spec.continuity ?? choice(entry, env, "VLLM_CONTINUITY", ContinuityChoice),
		disableThinking: entry.disableThinking,
	};
}

/** What an engine was started with, or is good for, is known to whoever started it. */
function choice<T extends string>(
	{ name }: Entry,
	env: Environment,
	variable: string,
	known: z.ZodEnum<Record<T, T>>,
): T | undefined {
	const said = name === "vllm" ? present(env[variable]) : undefined;
	if (said === undefined) return undefined;
	const parsed = known.safeParse(said);
	if (parsed.success) return parsed.data as T;
	throw new UsageError(`${variable} must be ${known.options.join(" or ")}`, "bad_config");
}

/** The server's own key goes to the server's own URL and nowhere else. */
function chooseKey(entry: Entry, spec: NamedSpec, env: Environment, isServerUrl: boolean): string {
	const given = checkedKey(spec.apiKey, "api_key");
	if (given !== undefined) return given;
	const held = checkedKey(env[entry.keyVariable], entry.keyVariable);
	if (held !== undefined && isServerUrl) return held;
	if (held !== undefined)
		throw new UsageError(
			`base_url is not the server's own "${entry.name}" address, so the server's key is not sent there: pass api_key as well`,
			"server_key_withheld",
		);
	if (entry.placeholderKey !== null) return entry.placeholderKey;
	throw new UsageError(
		`endpoint "${entry.name}" has no key: pass api_key, or set ${entry.keyVariable} on the server`,
		"endpoint_not_configured",
	);
}

function listEntry(entry: Entry, env: Environment): EndpointListing {
	const model = present(env[entry.modelVariable]) ?? entry.defaultModel;
	try {
		const baseUrl = serverBaseUrl(entry, env);
		const hasKey = present(env[entry.keyVariable]) !== undefined || entry.placeholderKey !== null;
		const missing = [
			...(baseUrl === null ? [entry.urlVariable] : []),
			...(hasKey ? [] : [entry.keyVariable]),
		];
		const note = missing.length === 0 ? "Ready" : `Set ${missing.join(" and ")}`;
		return { name: entry.name, configured: missing.length === 0, baseUrl, model, note };
	} catch (error) {
		if (!(error instanceof UsageError)) throw error;
		return { name: entry.name, configured: false, baseUrl: null, model, note: error.message };
	}
}

function serverBaseUrl(entry: Entry, env: Environment): string | null {
	const text = present(env[entry.urlVariable]) ?? entry.defaultUrl;
	return text === null ? null : normaliseBaseUrl(text, entry.urlVariable);
}

function findEntry(name: string): Entry {
	const entry = ENTRIES.find((candidate) => candidate.name === name);
	if (entry !== undefined) return entry;
	throw new UsageError(
		`endpoint ${JSON.stringify(name.slice(0, 100))} is not in the catalog${didYouMean(name)}: use one of ${ENDPOINT_NAMES.join(", ")}, cred:<label> or pool:<name>, or pass base_url, api_key and model`,
		"unknown_endpoint",
	);
}

function didYouMean(name: string): string {
	const meant = nearest(name.slice(0, 100), ENDPOINT_NAMES);
	return meant === null ? "" : ` (did you mean ${meant}?)`;
}

/** Keys travel in a header; the message never repeats the key. */
function checkedKey(key: string | undefined, argument: string): string | undefined {
	const given = present(key);
	if (given !== undefined && !/^[\x21-\x7e]+$/.test(given))
		throw new UsageError(`${argument} must be one line of plain ASCII without spaces`, "bad_api_key");
	return given;
}

/** Callers send "" for what they leave out. */
function present(text: string | undefined): string | undefined {
	const trimmed = text?.trim();
	return trimmed === "" ? undefined : trimmed;
}
