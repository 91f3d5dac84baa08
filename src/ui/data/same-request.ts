import type { z } from "zod";
import type { EndpointSpec } from "../../model/endpoint.ts";
import type { RolloutRequest } from "../../model/request.ts";

/** What the launch form makes, in the API's own spelling. */
export type LaunchRequest = z.input<typeof RolloutRequest> & { n: number };
type TaskInput = LaunchRequest["task"];

/** A request on another surface, to be copied as it stands, and what that surface has no word for. */
export interface Elsewhere {
	text: string;
	missing: string[];
}

/** The key is never part of a copied text: it is read from this variable. */
const KEY = "API_KEY";

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
	const options = Object.entries(terms).map(([name, value]) => `, ${toSnake(name)}=${toPythonValue(value)}`);
	const begin =
		n === 1
			? `print(client.run(task, endpoint=endpoint${options.join("")}).reward)`
			: `for result in client.group(task, ${n}, endpoint=endpoint${options.join("")}):\n    print(result.reward)`;
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
	const key = "apiKey" in endpoint && endpoint.apiKey ? `, api_key=os.environ["${KEY}"]` : "";
	if (endpoint.type === "policy") return `Endpoint.policy(${toPythonValue(endpoint.policy)})`;
	if (endpoint.type === "url")
		return `Endpoint.url(${toPythonValue(endpoint.baseUrl)}, ${toPythonValue(endpoint.model)}${key})`;
	const model = endpoint.model ? `, model=${toPythonValue(endpoint.model)}` : "";
	return `Endpoint.named(${toPythonValue(endpoint.name)}${model}${key})`;
}

/** One call of the tool; a group is n such calls. */
export function toMcp(request: LaunchRequest): Elsewhere {
	const { task, endpoint, n, sandbox = "local", mode, sampling, agent } = request;
	const { agentS, ...clocks } = task.clocks ?? {};
	const { network, ...box } = task.box ?? {};
	const { maxTokensCap, topLogprobs = 0, temperature, ...moreSampling } = sampling ?? {};
	const { permission, ...moreAgent } = agent ?? {};
	const call = {
		...mcpEndpoint(endpoint),
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
		agent_timeout_s: agentS,
		permission,
		network: typeof network === "object" ? network.allow : network,
	};
	return {
		text: JSON.stringify({ name: "run_rollout", arguments: call }, null, 2),
		missing: [
			...(n > 1 ? [`n (call it ${n} times)`] : []),
			...said({ files: task.files, tests: task.tests, artifacts: task.artifacts, budget: task.budget }),
			...said({ clocks, box, agent: moreAgent, sampling: moreSampling }),
			...("apiKey" in endpoint && endpoint.apiKey ? ["the key (write it in as api_key)"] : []),
		],
	};
}

function mcpEndpoint(endpoint: z.input<typeof EndpointSpec>) {
	if (endpoint.type === "policy") return { endpoint: "scripted", model: endpoint.policy };
	if (endpoint.type === "url") return { base_url: endpoint.baseUrl, model: endpoint.model };
	return { endpoint: endpoint.name, model: endpoint.model };
}

/** The task goes into a folder of its own; the command runs it. */
export function toCommandLine(request: LaunchRequest, origin: string): Elsewhere {
	const { task, endpoint, n, sandbox, mode, agent, sampling } = request;
	const { temperature, topLogprobs, ...moreSampling } = sampling ?? {};
	const { permission, ...moreAgent } = agent ?? {};
	const folder = task.id.replace(/[^\w.-]+/g, "-").replace(/^[.-]+/, "") || "task";
	const words = ["npx", "paddock", "run", `./${folder}`, ...modelWords(endpoint)];
	if (n > 1) words.push("-n", String(n));
	if (sandbox !== undefined) words.push("--sandbox", sandbox);
	if (mode !== undefined) words.push("--mode", mode);
	if (permission !== undefined) words.push("--permission", permission);
	if (temperature !== undefined) words.push("--temperature", String(temperature));
	if (topLogprobs !== undefined) words.push("--top-logprobs", String(topLogprobs));
	words.push("--server", origin);
	const isNameable = /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(task.id);
	return {
		text: `mkdir -p ${folder} && cat > ${folder}/task.yaml <<'TASK'
${toYaml(isNameable ? task : { ...task, id: folder })}TASK
${words.map((word) => (/^[\w./:@=-]+$/.test(word) ? word : quoted(word))).join(" ")}`,
		missing: [
			...(isNameable ? [] : [`the task's name (here ${folder})`]),
			...said({ agent: moreAgent, sampling: moreSampling }),
		],
	};
}

function modelWords(endpoint: z.input<typeof EndpointSpec>): string[] {
	if (endpoint.type === "policy") return ["--policy", endpoint.policy];
	const key = endpoint.apiKey ? ["--api-key-env", KEY] : [];
	if (endpoint.type === "url") return ["--base-url", endpoint.baseUrl, "--model", endpoint.model, ...key];
	return ["--endpoint", endpoint.name, ...(endpoint.model ? ["--model", endpoint.model] : []), ...key];
}

function toYamlStep(step: NonNullable<TaskInput["solution"]>[number]): object {
	if (typeof step === "string") return { bash: step };
	if (step.tool === "bash") return { bash: step.command };
	if (step.tool === "write") return { write: step.path, content: step.content };
	return { edit: step.path, old: step.old, new: step.new };
}

/** A task.yaml. JSON is YAML, so each field is one line of it. */
function toYaml({ solution, clocks, budget, box, rewardFile: _, ...plain }: TaskInput): string {
	const fields = {
		...plain,
		solution: solution?.map(toYamlStep),
		limits: { ...snakeKeys(clocks), ...snakeKeys(budget) },
		box: snakeKeys(box),
	};
	return Object.entries(fields)
		.filter(([, value]) => value !== undefined && Object.keys(value).length > 0)
		.map(([name, value]) => `${name}: ${JSON.stringify(value)}\n`)
		.join("");
}

function snakeKeys(value: object | undefined): object {
	return Object.fromEntries(Object.entries(value ?? {}).map(([name, each]) => [toSnake(name), each]));
}

/** The names of fields in which something was said. */
function said(fields: Record<string, object | undefined>): string[] {
	return Object.entries(fields).flatMap(([name, value]) => {
		if (value === undefined || Object.keys(value).length === 0) return [];
		return Array.isArray(value) ? [name] : Object.keys(value).map((key) => `${name}.${key}`);
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

function quoted(text: string): string {
	return `'${text.replaceAll("'", `'\\''`)}'`;
}

function toSnake(name: string): string {
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
