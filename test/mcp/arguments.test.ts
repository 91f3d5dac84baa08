import { describe, expect, test } from "vitest";
import { UsageError } from "../../src/errors.ts";
import { unknownResult } from "../../src/export/result.ts";
import type { RolloutResult } from "../../src/model/result.ts";
import { RolloutArguments, readArguments } from "../../src/tools/arguments.ts";
import { toRolloutRequest } from "../../src/tools/request.ts";
import { onlyParts } from "../../src/tools/result.ts";

const env = { OPENAI_API_KEY: "server-secret", VLLM_URL: "http://gpu:8000" };
const surroundings = { env, sandbox: "local", door: "mcp" } as const;
const read = (value: unknown) => toRolloutRequest(readArguments(RolloutArguments, value), surroundings);
const toRequest = (value: unknown) => read(value).request;

/** What the typed OpenEnv client sends: every argument, the unused ones empty. */
const EVERYTHING_EMPTY = {
	endpoint: "vllm",
	base_url: "",
	api_key: "",
	model: "",
	instruction: "solve it",
	setup: [],
	verify: [],
	task_id: "",
	mode: "transparent_proxy",
	disable_thinking: null,
	max_tokens_cap: 4096,
	top_logprobs: 5,
	agent_timeout_s: 600.0,
	template: "",
};

describe("the first spelling", () => {
	test("all arguments of the typed client, empty ones included, give the defaults", () => {
		const request = toRequest(EVERYTHING_EMPTY);
		expect(request).toMatchObject({
			endpoint: { type: "named", name: "vllm" },
			sandbox: "local",
			mode: "transparent_proxy",
			sampling: { maxTokensCap: 4096, topLogprobs: 5 },
			labels: { door: "mcp" },
		});
		expect(request.sampling.disableThinking).toBeUndefined();
		expect(request.task).toMatchObject({
			instruction: "solve it",
			setup: [],
			verify: [],
			clocks: { agentS: 600 },
		});
		expect(request.agent).toMatchObject({ permission: "allow" });
		expect(request.task.id).toMatch(/^inline-[0-9a-f]{12}$/);
		expect(request.task.box.template).toBeUndefined();
	});

	test("every argument arrives where it belongs", () => {
		const request = toRequest({
			...EVERYTHING_EMPTY,
			endpoint: "",
			base_url: "http://mine:9000",
			api_key: "k",
			model: "m",
			setup: ["a", "b"],
			verify: ["c"],
			task_id: "t-1",
			mode: "black_box",
			disable_thinking: true,
			max_tokens_cap: 0,
			top_logprobs: 0,
			temperature: 0.7,
			continuity: "off",
			keep_reasoning: true,
			logprobs_mode: "processed_logprobs",
			agent_timeout_s: 2.5,
			template: "tpl",
			sandbox: "docker",
			permission: "ask",
		});
		expect(request.agent).toMatchObject({ permission: "ask" });
		expect(request.endpoint).toEqual({
			type: "url",
			baseUrl: "http://mine:9000",
			apiKey: "k",
			model: "m",
			dialect: "auto",
			logprobsMode: "processed_logprobs",
		});
		expect(request.sampling).toMatchObject({ temperature: 0.7, continuity: "off", keepReasoning: true });
		expect(request).toMatchObject({
			sandbox: "docker",
			mode: "black_box",
			sampling: { maxTokensCap: 0, topLogprobs: 0, disableThinking: true },
			task: {
				id: "t-1",
				setup: ["a", "b"],
				verify: ["c"],
				clocks: { agentS: 2.5 },
				box: { template: "tpl" },
			},
		});
	});

	test("null stands for left out, in every optional argument", () => {
		const nulls = Object.fromEntries(Object.keys(EVERYTHING_EMPTY).map((name) => [name, null]));
		expect(toRequest({ ...nulls, instruction: "x", endpoint: "scripted" })).toEqual(
			toRequest({ instruction: "x", endpoint: "scripted" }),
		);
	});
});

describe("the second spelling", () => {
	test("test script, setup script, files and thinking", () => {
		const request = toRequest({
			model_key: "vllm://Qwen/Q",
			vllm_url: "http://mine:8000/v1",
			instruction: "x",
			test_script: "#!/bin/bash\nexit 0\n",
			setup_shell: "apt list\necho ok",
			upload_files: { "src/a.py": "print()", "/home/user/data/b": "1", "../c": "2" },
			thinking: false,
			task_id: "t",
		});
		expect(request.endpoint).toMatchObject({ name: "vllm", baseUrl: "http://mine:8000/v1", model: "Qwen/Q" });
		expect(request.sampling.disableThinking).toBe(true);
		expect(request.task.setup).toEqual(["apt list\necho ok"]);
		expect(request.task.verify).toEqual(["bash /home/user/tests/test.sh"]);
		expect(request.task.tests).toMatchObject([{ path: "test.sh", content: "#!/bin/bash\nexit 0\n" }]);
		expect(request.task.files.map((file) => file.path)).toEqual([
			"src/a.py",
			"/home/user/data/b",
			"/home/user/c",
		]);
	});

	test("thinking true asks for thinking", () => {
		const request = toRequest({
			model_key: "hf-router://a/b:c",
			hf_token: "h",
			instruction: "x",
			thinking: true,
		});
		expect(request.sampling.disableThinking).toBe(false);
		expect(request.endpoint).toMatchObject({ name: "hf_router", model: "a/b:c", apiKey: "h" });
	});

	test("endpoint scripted goes with it too", () => {
		const request = toRequest({ endpoint: "scripted", instruction: "x", test_script: "true" });
		expect(request.endpoint).toEqual({ type: "policy", policy: "oracle" });
	});
});

describe("the scripted model", () => {
	test("plays the solution, given as commands or steps", () => {
		const solution = ["touch a", { tool: "write", path: "b", content: "c" }];
		const request = toRequest({ endpoint: "scripted", instruction: "x", solution });
		expect(request.task.solution).toEqual([
			{ tool: "bash", command: "touch a" },
			{ tool: "write", path: "b", content: "c" },
		]);
	});

	test.each([
		[{ endpoint: "scripted", model: "noop" }, "noop"],
		[{ model_key: "scripted://cheat-reward" }, "cheat-reward"],
	])("%j chooses the policy", (choice, policy) => {
		expect(toRequest({ ...choice, instruction: "x" }).endpoint).toEqual({ type: "policy", policy });
	});
});

test("the idempotency key is handed on", () => {
	const value = { endpoint: "scripted", instruction: "x", idempotency_key: "once" };
	expect(read(value).idempotencyKey).toBe("once");
});

const base = { endpoint: "scripted", instruction: "x" };
const REFUSED: [string, unknown, string, RegExp][] = [
	["no arguments", undefined, "bad_argument", /instruction is required/],
	["an array", [], "bad_argument", /must be an object/],
	["a string", "solve it", "bad_argument", /must be an object/],
	["no instruction", { endpoint: "scripted" }, "bad_argument", /instruction is required/],
	["a blank instruction", { ...base, instruction: " \n" }, "bad_argument", /instruction is required/],
	[
		"an unknown argument",
		{ ...base, instructoin: "x" },
		"bad_argument",
		/unknown argument "instructoin"; did you mean "instruction"/,
	],
	["a wrong type", { ...base, setup: "make" }, "bad_argument", /^setup: .*array/],
	["a wrong type inside", { ...base, setup: ["a", 1] }, "bad_argument", /^setup\.1: .*string/],
	["a number as text", { ...base, agent_timeout_s: "600" }, "bad_argument", /^agent_timeout_s: .*number/],
	["a negative time", { ...base, agent_timeout_s: -1 }, "bad_argument", /^agent_timeout_s/],
	["too many logprobs", { ...base, top_logprobs: 21 }, "bad_argument", /^top_logprobs/],
	["an unknown mode", { ...base, mode: "grey_box" }, "bad_argument", /^mode: .*black_box/],
	["an unknown sandbox", { ...base, sandbox: "moon" }, "bad_argument", /^sandbox: .*docker/],
	[
		"a huge instruction",
		{ ...base, instruction: "x".repeat(20_000_000) },
		"bad_argument",
		/instruction is longer than 1000000/,
	],
	["no endpoint", { instruction: "x" }, "endpoint_missing", /pass endpoint/],
	[
		"a URL without a model",
		{ instruction: "x", base_url: "http://h" },
		"endpoint_missing",
		/model is missing/,
	],
	["vllm_url alone", { instruction: "x", vllm_url: "http://h" }, "endpoint_missing", /model_key is missing/],
	["an unknown endpoint", { ...base, endpoint: "claude" }, "unknown_endpoint", /vllm, openai/],
	[
		"an endpoint without its key",
		{ ...base, endpoint: "hf_router" },
		"endpoint_not_configured",
		/HF_ROUTER_API_KEY/,
	],
	[
		"a foreign URL for the server's key",
		{ ...base, endpoint: "openai", base_url: "http://evil" },
		"server_key_withheld",
		/api_key/,
	],
	["a file URL", { instruction: "x", base_url: "file:///x", model: "m" }, "bad_endpoint_url", /base_url/],
	["both models", { ...base, model_key: "vllm://m" }, "mixed_arguments", /endpoint and model_key/],
	["both setups", { ...base, setup: ["a"], setup_shell: "b" }, "mixed_arguments", /setup and setup_shell/],
	[
		"verify and test script",
		{ ...base, verify: ["a"], test_script: "b" },
		"mixed_arguments",
		/verify and test_script/,
	],
	[
		"both kinds of thinking",
		{ ...base, disable_thinking: true, thinking: true },
		"mixed_arguments",
		/thinking/,
	],
	["a bad model key", { model_key: "gpt", instruction: "x" }, "bad_model_key", /vllm:\/\//],
	[
		"a file outside home",
		{ ...base, upload_files: { "/etc/passwd": "", a: "b" } },
		"bad_argument",
		/upload_files: "\/etc\/passwd"/,
	],
	[
		"a file climbing out",
		{ ...base, upload_files: { "../../../etc/x": "y" } },
		"bad_argument",
		/upload_files/,
	],
	["a bad solution step", { ...base, solution: [{ tool: "rm" }] }, "bad_argument", /^solution/],
];

test("in the second spelling the model does not think unless it is asked to", () => {
	const second = { instruction: "x", model_key: "vllm://repo", vllm_url: "http://gpu:8000" };
	expect(toRequest(second).sampling.disableThinking).toBe(true);
	expect(toRequest({ ...second, thinking: true }).sampling.disableThinking).toBe(false);
	expect(toRequest(EVERYTHING_EMPTY).sampling.disableThinking).toBeUndefined();
});

test("a test script earns what it writes down, and nothing for its exit code", () => {
	const second = { instruction: "x", model_key: "vllm://repo", vllm_url: "http://gpu:8000" };
	expect(toRequest({ ...second, test_script: "true" }).task.rewardFile).toBe("required");
	expect(toRequest({ ...EVERYTHING_EMPTY, verify: ["true"] }).task.rewardFile).toBeUndefined();
});

test("a box has no network unless it is asked for: some hosts, or all", () => {
	const networkOf = (network: unknown) => toRequest({ ...EVERYTHING_EMPTY, network }).task.box.network;
	expect(networkOf(undefined)).toBe("none");
	expect(networkOf("")).toBe("none");
	expect(networkOf([])).toBe("none");
	expect(networkOf(["pypi.org", "files.pythonhosted.org"])).toEqual({
		allow: ["pypi.org", "files.pythonhosted.org"],
	});
	expect(networkOf("internet")).toBe("internet");
});

test.each(REFUSED)(
	"%s is refused in one sentence that names the argument",
	(_title, value, code, message) => {
		const error = usageErrorOf(() => toRequest(value));
		expect(error.code).toBe(code);
		expect(error.message).toMatch(message);
		expect(error.message.length).toBeLessThan(1_000);
		expect(error.message).not.toContain("server-secret");
	},
);

function usageErrorOf(run: () => unknown): UsageError {
	try {
		run();
	} catch (error) {
		if (error instanceof UsageError) return error;
		throw error;
	}
	throw new Error("nothing was thrown");
}

test("include keeps the parts it names, and the verdict in any case", () => {
	const turn = { turn: 0 } as unknown as RolloutResult["proxy_turns"][number];
	const command = { cmd: "true", exit_code: 0, stdout: "", stderr: "", duration_s: 0 };
	const whole: RolloutResult = {
		...unknownResult("ro_1"),
		...{ reward: 1, outcome: "completed", proxy_turns: [turn] },
		...{ files: { a: "b" }, workdir_files: { a: "b" }, setup_results: [command], verify_results: [command] },
		...{ verifier_stdout: "o", verifier_stderr: "e" },
		...{ agent_log_tail: "a", proxy_log_tail: "p", install_log_tail: "i" },
	};
	const bare = onlyParts(whole, []);
	expect(bare).toEqual({ ...unknownResult("ro_1"), reward: 1, outcome: "completed" });
	expect(onlyParts(whole, null)).toEqual(whole);
	expect(onlyParts(whole, ["turns", "files", "commands", "logs"])).toEqual(whole);
	expect(onlyParts(whole, ["turns"])).toEqual({ ...bare, proxy_turns: [turn] });
	const files = { files: { a: "b" }, workdir_files: { a: "b" } };
	expect(onlyParts(whole, ["files"])).toEqual({ ...bare, ...files });
	expect(onlyParts(whole, ["commands"])).toMatchObject({ setup_results: [command], agent_log_tail: "" });
	expect(onlyParts(whole, ["logs"])).toMatchObject({ setup_results: [], install_log_tail: "i" });
});
