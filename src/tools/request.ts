import { createHash } from "node:crypto";
import { posix } from "node:path";
import { UsageError } from "../errors.ts";
import { credentialOf, parseModelKey, resolveEndpoint, SCRIPTED } from "../gateway/catalog.ts";
import type { EndpointSpec } from "../model/endpoint.ts";
import { RolloutRequest, type SandboxName } from "../model/request.ts";
import { HOME, type Network, type SolutionStep, TESTS_DIR, WORKDIR } from "../model/task.ts";
import { inOneSpelling, isSecondSpelling, type RolloutArguments } from "./arguments.ts";

type Given = Partial<RolloutArguments> & { instruction: string };

export interface RequestSurroundings {
	env: Record<string, string | undefined>;
	sandbox: SandboxName;
	/** Which door the rollout came through; kept as a label. */
	door: string;
}

/** What a caller of `run_rollout` or `start_rollout` said, as the one request every door submits. */
export function toRolloutRequest(
	value: RolloutArguments,
	surroundings: RequestSurroundings,
): { request: RolloutRequest; idempotencyKey: string | undefined } {
	const given = inOneSpelling(value);
	const endpoint = withLogprobsMode(toEndpoint(given), given);
	if (endpoint.type !== "policy" && credentialOf(endpoint) === null)
		resolveEndpoint(endpoint, surroundings.env);
	const request = RolloutRequest.parse({
		task: toTask(given),
		endpoint,
		sandbox: given.sandbox || surroundings.sandbox,
		mode: given.mode || undefined,
		agent: { permission: given.permission || undefined },
		sampling: toSampling(given),
		labels: { door: surroundings.door },
	});
	return { request, idempotencyKey: given.idempotency_key ?? undefined };
}

function toEndpoint(given: Given): EndpointSpec {
	if (given.model_key) {
		return parseModelKey(given.model_key, {
			vllmUrl: given.vllm_url ?? undefined,
			hfToken: given.hf_token ?? undefined,
		});
	}
	if (given.endpoint === SCRIPTED) {
		resolveEndpoint(toNamed(given, SCRIPTED), {});
		return { type: "policy", policy: given.model ?? "oracle" };
	}
	if (given.endpoint) return toNamed(given, given.endpoint);
	if (given.base_url && given.model) {
		return {
			type: "url",
			baseUrl: given.base_url,
			model: given.model,
			...(given.api_key ? { apiKey: given.api_key } : {}),
			dialect: "auto",
		};
	}
	throw new UsageError(missingEndpoint(given), "endpoint_missing");
}

/** A scripted model needs none: its temperature changes nothing. */
function withLogprobsMode(endpoint: EndpointSpec, { logprobs_mode: logprobsMode }: Given): EndpointSpec {
	return logprobsMode && endpoint.type !== "policy" ? { ...endpoint, logprobsMode } : endpoint;
}

function toNamed(given: Given, name: string): Extract<EndpointSpec, { type: "named" }> {
	return {
		type: "named",
		name,
		...(given.base_url ? { baseUrl: given.base_url } : {}),
		...(given.model ? { model: given.model } : {}),
		...(given.api_key ? { apiKey: given.api_key } : {}),
	};
}

function missingEndpoint(given: Given): string {
	if (given.vllm_url || given.hf_token)
		return "model_key is missing: write vllm://<repo> or hf-router://<repo>:<provider>";
	if (given.base_url)
		return "model is missing: base_url needs model (and api_key, if the server asks for one)";
	return "no model to talk to: pass endpoint (vllm, openai, hf_router, scripted), or base_url, api_key and model, or model_key";
}

function toTask(given: Given) {
	const testScript = given.test_script ?? undefined;
	return {
		id:
			given.task_id ?? `inline-${createHash("sha256").update(given.instruction).digest("hex").slice(0, 12)}`,
		instruction: given.instruction,
		files: Object.entries(given.upload_files ?? {}).map(([path, content]) => ({
			path: checkedPath(path),
			content,
		})),
		setup: given.setup_shell ? [given.setup_shell] : (given.setup ?? []),
		verify: testScript === undefined ? (given.verify ?? []) : [`bash ${TESTS_DIR}/test.sh`],
		tests: testScript === undefined ? [] : [{ path: "test.sh", content: testScript, executable: true }],
		solution: (given.solution ?? []).map(
			(step): SolutionStep => (typeof step === "string" ? { tool: "bash", command: step } : step),
		),
		rewardFile: testScript === undefined ? undefined : ("required" as const),
		clocks: { agentS: given.agent_timeout_s ?? undefined },
		box: { template: given.template ?? undefined, network: toNetwork(given.network) },
	};
}

function toNetwork(given: Given["network"]): Network | undefined {
	return Array.isArray(given) ? { allow: given } : given || undefined;
}

/** Everything a task brings stays below the home folder. */
function checkedPath(path: string): string {
	const target = posix.resolve(WORKDIR, path);
	if (path.includes("\0") || path.endsWith("/") || !target.startsWith(`${HOME}/`))
		throw new UsageError(
			`upload_files: ${JSON.stringify(path.slice(0, 200))} must name a file in the workdir or below ${HOME}`,
			"bad_argument",
		);
	return path.split("/").includes("..") ? target : path;
}

function toSampling(given: Given) {
	return {
		maxTokensCap: given.max_tokens_cap ?? 4096,
		topLogprobs: given.top_logprobs ?? 5,
		disableThinking: isSecondSpelling(given)
			? given.thinking !== true
			: (given.disable_thinking ?? undefined),
		temperature: given.temperature ?? undefined,
		continuity: given.continuity || undefined,
		keepReasoning: given.keep_reasoning || undefined,
	};
}
