import type { z } from "zod";
import type { EndpointSpec } from "../../model/endpoint.ts";
import type { RolloutRequest } from "../../model/request.ts";

/** What the launch form makes, in the API's own spelling. */
export type LaunchRequest = z.input<typeof RolloutRequest> & { n: number };

/** A request on another surface, to be copied as it stands, and what that surface has no word for. */
export interface Elsewhere {
	text: string;
	missing: string[];
}

/** The key is never part of a copied text: it is read from this variable. */
export const KEY = "API_KEY";

export function toCurl(request: LaunchRequest, origin: string): Elsewhere {
	const placeholder = "\u0000key\u0000";
	const body = quoted(JSON.stringify(withKey(request, placeholder)));
	return {
		text: `curl -sS ${origin}/api/v1/rollouts \\
  -H 'content-type: application/json' -H "Authorization: Bearer $PADDOCK_TOKEN" \\
  -d ${body.replace(JSON.stringify(placeholder).slice(1, -1), `'"$${KEY}"'`)}`,
		missing: [],
	};
}

export function toPython(request: LaunchRequest, origin: string): Elsewhere {
	const { task, endpoint, n, ...terms } = request;
	const options = pythonOptions(terms);
	const begin =
		n === 1
			? `print(client.run(task, endpoint=endpoint${options}).reward)`
			: `for result in client.group(task, ${n}, endpoint=endpoint${options}):\n    print(result.reward)`;
	return {
		text: `import os

from paddock import Client, Endpoint, Task

client = Client(${toPythonValue(origin)}, token=os.environ.get("PADDOCK_TOKEN"))
task = Task.from_json(${toPythonValue(task)})
endpoint = ${pythonEndpoint(endpoint)}
${begin}`,
		missing: [],
	};
}

function pythonEndpoint(endpoint: z.input<typeof EndpointSpec>): string {
	if (endpoint.type === "policy")
		return `Endpoint.policy(${toPythonValue(endpoint.policy)}${pythonOptions({ trace: endpoint.trace })})`;
	const { apiKey, model, baseUrl, dialect, logprobsMode, weightVersion } = endpoint;
	const more = pythonOptions({ dialect, logprobsMode, weightVersion });
	const key = apiKey ? `, api_key=os.environ["${KEY}"]` : "";
	if (endpoint.type === "url")
		return `Endpoint.url(${toPythonValue(baseUrl)}, ${toPythonValue(model)}${key}${more})`;
	return `Endpoint.named(${toPythonValue(endpoint.name)}${pythonOptions({ baseUrl, model })}${key}${more})`;
}

function pythonOptions(values: object): string {
	return Object.entries(values)
		.filter(([, value]) => value !== undefined)
		.map(([name, value]) => `, ${toSnake(name)}=${toPythonValue(value)}`)
		.join("");
}

/** One call of the tool; a group is n such calls. */
export function toMcp(request: LaunchRequest): Elsewhere {
	const { task, endpoint, n, sandbox = "local", mode, sampling, agent } = request;
	const { agentS, ...clocks } = task.clocks ?? {};
	const { network, template, ...box } = task.box ?? {};
	const { maxTokensCap, topLogprobs = 0, temperature, ...more } = sampling ?? {};
	const { continuity, keepReasoning, disableThinking, ...moreSampling } = more;
	const { permission, ...moreAgent } = agent ?? {};
	const { words, missing } = mcpEndpoint(endpoint);
	const call = {
		...words,
		task_id: task.id,
		instruction: task.instruction,
		setup: orNothing(task.setup),
		verify: orNothing(task.verify),
		solution: orNothing(task.solution),
		sandbox,
		mode,
		max_tokens_cap: maxTokensCap,
		top_logprobs: topLogprobs,
		temperature,
		continuity,
		keep_reasoning: keepReasoning,
		disable_thinking: disableThinking,
		agent_timeout_s: agentS,
		permission,
		network: typeof network === "object" ? network.allow : network,
		template,
	};
	return {
		text: JSON.stringify({ name: "run_rollout", arguments: call }, null, 2),
		missing: [
			...(n > 1 ? [`n (call it ${n} times)`] : []),
			...said({ files: task.files, tests: task.tests, artifacts: task.artifacts, budget: task.budget }),
			...said({ clocks, box, agent: moreAgent, sampling: moreSampling, ...restOf(request) }),
			...missing,
		],
	};
}

function mcpEndpoint(endpoint: z.input<typeof EndpointSpec>): { words: object; missing: string[] } {
	if (endpoint.type === "policy")
		return {
			words: { endpoint: "scripted", model: endpoint.policy },
			missing: said({ endpoint: { trace: endpoint.trace } }),
		};
	const { baseUrl, model, dialect, logprobsMode, weightVersion, apiKey } = endpoint;
	return {
		words: {
			...(endpoint.type === "named" ? { endpoint: endpoint.name } : {}),
			...{ base_url: baseUrl, model, logprobs_mode: logprobsMode },
		},
		missing: [
			...said({ endpoint: { dialect: dialect === "auto" ? undefined : dialect, weightVersion } }),
			...(apiKey ? ["the key (write it in as api_key)"] : []),
		],
	};
}

/** What only the request itself has: neither the command line nor MCP has a word for it. */
export function restOf({ labels, priority, maxAttempts }: LaunchRequest) {
	return { labels, request: { priority, maxAttempts } };
}

/** The names of fields in which something was said. */
export function said(fields: Record<string, object | undefined>): string[] {
	return Object.entries(fields).flatMap(([name, value]) => {
		if (value === undefined) return [];
		const names = Object.entries(value).flatMap(([key, each]) => (each === undefined ? [] : key));
		return Array.isArray(value) ? names.slice(0, 1).map(() => name) : names.map((key) => `${name}.${key}`);
	});
}

function orNothing<T>(list: T[] | undefined): T[] | undefined {
	return list === undefined || list.length === 0 ? undefined : list;
}

function withKey(request: LaunchRequest, apiKey: string): LaunchRequest {
	const { endpoint } = request;
	if (endpoint.type === "policy" || !endpoint.apiKey) return request;
	return { ...request, endpoint: { ...endpoint, apiKey } };
}

export function quoted(text: string): string {
	return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function toSnake(name: string): string {
	return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function toPythonValue(value: unknown): string {
	if (value === null || value === undefined) return "None";
	if (typeof value === "boolean") return value ? "True" : "False";
	if (Array.isArray(value)) return `[${value.map(toPythonValue).join(", ")}]`;
	if (typeof value !== "object") return JSON.stringify(value);
	const entries = Object.entries(value).filter(([, each]) => each !== undefined);
	return `{${entries.map(([name, each]) => `${JSON.stringify(name)}: ${toPythonValue(each)}`).join(", ")}}`;
}
