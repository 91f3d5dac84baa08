import { describe, expect, test } from "vitest";
import { UsageError } from "../../src/errors.ts";
import {
	listEndpoints,
	normaliseBaseUrl,
	parseModelKey,
	resolveEndpoint,
} from "../../src/gateway/catalog.ts";
import { lookupOpen } from "../../src/gateway/upstream/addresses.ts";
import type { EndpointSpec } from "../../src/model/endpoint.ts";

type Spec = Exclude<EndpointSpec, { type: "policy" }>;
const named = (name: string, fields: Partial<Extract<Spec, { type: "named" }>> = {}): Spec => ({
	type: "named",
	name,
	...fields,
});

describe("every field is the caller's, else the environment's, else the default", () => {
	const table: [string, Spec, Record<string, string>, Record<string, unknown>][] = [
		[
			"vllm from the environment, with its placeholder key and thinking off",
			named("vllm"),
			{ VLLM_URL: "http://gpu:8000" },
			{
				name: "vllm",
				baseUrl: "http://gpu:8000/v1",
				model: "Qwen/Qwen3.5-4B",
				apiKey: "intercepted",
				dialect: "vllm",
				disableThinking: true,
			},
		],
		[
			"vllm entirely from the caller",
			named("vllm", { baseUrl: "http://mine/v1/", model: "m", apiKey: "k", dialect: "sglang" }),
			{ VLLM_URL: "http://gpu:8000", VLLM_API_KEY: "server", VLLM_MODEL: "other" },
			{ baseUrl: "http://mine/v1", model: "m", apiKey: "k", dialect: "sglang" },
		],
		[
			"vllm's continuity from the environment",
			named("vllm"),
			{ VLLM_URL: "http://gpu:8000", VLLM_CONTINUITY: "off" },
			{ continuity: "off" },
		],
		[
			"the caller's word on continuity goes first",
			named("vllm", { continuity: "auto" }),
			{ VLLM_URL: "http://gpu:8000", VLLM_CONTINUITY: "off" },
			{ continuity: "auto" },
		],
		[
			"openai defaults",
			named("openai"),
			{ OPENAI_API_KEY: "sk-1" },
			{
				baseUrl: "https://api.openai.com/v1",
				model: "gpt-4o-mini",
				apiKey: "sk-1",
				dialect: "openai",
				disableThinking: false,
			},
		],
		[
			"openai environment over defaults",
			named("openai"),
			{ OPENAI_API_KEY: "sk-1", OPENAI_BASE_URL: "https://proxy.example/openai", OPENAI_MODEL: "gpt-x" },
			{ baseUrl: "https://proxy.example/openai/v1", model: "gpt-x" },
		],
		[
			"empty strings count as left out",
			named("openai", { baseUrl: "", model: " ", apiKey: "" }),
			{ OPENAI_API_KEY: "sk-1", OPENAI_MODEL: "" },
			{ baseUrl: "https://api.openai.com/v1", model: "gpt-4o-mini", apiKey: "sk-1" },
		],
		[
			"hf_router defaults with the caller's key",
			named("hf_router", { apiKey: "hf_1" }),
			{},
			{
				baseUrl: "https://router.huggingface.co/v1",
				model: "Qwen/Qwen3-4B-Instruct-2507:nscale",
				apiKey: "hf_1",
			},
		],
		[
			"the server's own address spelled by the caller still gets the server's key",
			named("openai", { baseUrl: "https://api.openai.com" }),
			{ OPENAI_API_KEY: "sk-1" },
			{ apiKey: "sk-1" },
		],
		[
			"a bare URL has no key and thinks as it likes",
			{ type: "url", baseUrl: "http://localhost:9000", model: "m", dialect: "auto" },
			{ OPENAI_API_KEY: "sk-1" },
			{ name: "localhost:9000", baseUrl: "http://localhost:9000/v1", model: "m", disableThinking: false },
		],
	];
	test.each(table)("%s", (_title, spec, env, expected) => {
		expect(resolveEndpoint(spec, env)).toMatchObject(expected);
	});

	test("a bare URL without a key never gets one", () => {
		const endpoint = resolveEndpoint(
			{ type: "url", baseUrl: "https://api.openai.com/v1", model: "m", dialect: "auto" },
			{ OPENAI_API_KEY: "sk-1" },
		);
		expect(endpoint).toMatchObject({ apiKey: undefined });
	});

	test("scripted is the policy server's", () => {
		expect(resolveEndpoint(named("scripted"), {})).toBe("policy");
	});
});

describe("what cannot be resolved says which argument, and what to do", () => {
	const table: [string, Spec, Record<string, string>, string, RegExp][] = [
		["an unknown name", named("claude"), {}, "unknown_endpoint", /vllm, openai, hf_router, scripted/],
		["vllm without an address", named("vllm"), {}, "endpoint_not_configured", /VLLM_URL/],
		["openai without a key", named("openai"), {}, "endpoint_not_configured", /OPENAI_API_KEY/],
		["a file URL", named("vllm", { baseUrl: "file:///etc/passwd" }), {}, "bad_endpoint_url", /http/],
		["no URL at all", named("vllm", { baseUrl: "not a url" }), {}, "bad_endpoint_url", /base_url/],
		["a password in the URL", named("vllm", { baseUrl: "http://a:b@h" }), {}, "bad_endpoint_url", /api_key/],
		["a query", named("vllm", { baseUrl: "http://h/v1?x=1" }), {}, "bad_endpoint_url", /path/],
		[
			"a key of two lines",
			named("vllm", { baseUrl: "http://h", apiKey: "a\nb" }),
			{},
			"bad_api_key",
			/api_key/,
		],
		["scripted with a URL", named("scripted", { baseUrl: "http://h" }), {}, "endpoint_conflict", /base_url/],
	];
	test.each(table)("%s", (_title, spec, env, code, message) => {
		const error = usageErrorOf(() => resolveEndpoint(spec, env));
		expect(error.code).toBe(code);
		expect(error.message).toMatch(message);
	});
});

test.each(["vllm", "openai", "hf_router"])(
	"%s: the server's key never follows a caller's base_url",
	(name) => {
		const variable = { vllm: "VLLM", openai: "OPENAI", hf_router: "HF_ROUTER" }[name]!;
		const env = { [`${variable}_API_KEY`]: "server-secret", VLLM_URL: "http://gpu:8000" };
		for (const baseUrl of [
			"https://evil.example/v1",
			"https://api.openai.com.evil.example",
			"http://gpu:8001",
		]) {
			const error = usageErrorOf(() => resolveEndpoint(named(name, { baseUrl }), env));
			expect(error.code).toBe("server_key_withheld");
			expect(error.message).not.toContain("server-secret");
		}
	},
);

test.each([
	["http://h", "http://h/v1"],
	["http://h/", "http://h/v1"],
	["http://h/v1///", "http://h/v1"],
	["http://h/a/b", "http://h/a/b/v1"],
	["https://H:443/v1/chat/completions", "https://h/v1"],
	["http://[::1]:8000", "http://[::1]:8000/v1"],
])("%s becomes %s", (given, expected) => {
	expect(normaliseBaseUrl(given, "base_url")).toBe(expected);
});

describe("model_key", () => {
	test.each([
		[
			"vllm://Qwen/Qwen3.5-4B",
			{ vllmUrl: "http://gpu:8000" },
			{ name: "vllm", model: "Qwen/Qwen3.5-4B", baseUrl: "http://gpu:8000", apiKey: "intercepted" },
		],
		["vllm://m", {}, { type: "named", name: "vllm", model: "m" }],
		[
			"hf-router://Qwen/Qwen3:nscale",
			{ hfToken: "hf_1" },
			{ name: "hf_router", model: "Qwen/Qwen3:nscale", apiKey: "hf_1" },
		],
		["scripted://noop", {}, { type: "policy", policy: "noop" }],
		["hf-router://a/b:c", { vllmUrl: "", hfToken: "" }, { type: "named", name: "hf_router", model: "a/b:c" }],
	])("%s with %j", (key, options, expected) => {
		expect(parseModelKey(key, options)).toMatchObject(expected);
	});

	test.each([
		["", {}],
		["gpt-4o", {}],
		["openai://gpt", {}],
		["vllm://", {}],
		["vllm://m", { hfToken: "hf_1" }],
		["scripted://oracle", { vllmUrl: "http://h" }],
		["hf-router://m", { vllmUrl: "http://h" }],
	])("%j with %j is refused", (key, options) => {
		expect(usageErrorOf(() => parseModelKey(key, options)).code).toBe("bad_model_key");
	});

	test("a caller's vllm_url is given the placeholder even when the server holds a key", () => {
		const spec = parseModelKey("vllm://m", { vllmUrl: "http://mine" }) as Spec;
		expect(resolveEndpoint(spec, { VLLM_API_KEY: "server-secret" })).toMatchObject({ apiKey: "intercepted" });
	});
});

test("the list says what is missing and never a key", () => {
	const env = { OPENAI_API_KEY: "sk-secret", HF_ROUTER_BASE_URL: "http://u:pw@h", VLLM_API_KEY: "v-secret" };
	const list = listEndpoints(env);
	expect(list.map(({ name, configured }) => [name, configured])).toEqual([
		["vllm", false],
		["openai", true],
		["hf_router", false],
		["scripted", true],
	]);
	expect(list[0]?.note).toContain("VLLM_URL");
	expect(JSON.stringify(list)).not.toMatch(/secret|pw@/);
});

function usageErrorOf(run: () => unknown): UsageError {
	try {
		run();
	} catch (error) {
		if (error instanceof UsageError) return error;
		throw error;
	}
	throw new Error("nothing was thrown");
}

test.each([
	"http://169.254.169.254/latest/meta-data",
	"http://0xa9fea9fe/",
	"http://2852039166/",
	"http://[::ffff:169.254.169.254]/v1",
	"http://[64:ff9b::169.254.169.254]/v1",
	"http://[2002:a9fe:a9fe::1]/v1",
	"http://168.63.129.16/v1",
	"http://[fe80::1]/v1",
	"http://[fd00:ec2::254]/v1",
	"http://100.100.100.200/v1",
])("%s, where clouds keep credentials, is no model endpoint", (url) => {
	expect(() => normaliseBaseUrl(url, "base_url")).toThrow(/link-local/);
});

test.each(["http://127.0.0.1:8001", "http://10.0.0.7/v1", "http://[::1]:8001/v1", "http://gpu:8000"])(
	"%s may be one's own engine",
	(url) => expect(normaliseBaseUrl(url, "base_url")).toMatch(/\/v1$/),
);

test("a name that leads to a link-local address is refused when it is resolved", async () => {
	const { promise, resolve } = Promise.withResolvers<string | undefined>();
	lookupOpen("169.254.169.254", { all: true }, (error) => resolve(error?.code));
	expect(await promise).toBe("LINK_LOCAL");
	const own = Promise.withResolvers<unknown>();
	lookupOpen("localhost", { all: true }, (error, found) => own.resolve(error ?? found));
	expect(await own.promise).toEqual(expect.arrayContaining([expect.objectContaining({ family: 4 })]));
});

test("a base URL of endless slashes is refused before anything looks at them", () => {
	expect(() => normaliseBaseUrl(`http://h/${"/".repeat(200_000)}x`, "base_url")).toThrow(/longer than 2048/);
});
