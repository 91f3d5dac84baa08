import type { z } from "zod";
import type { EndpointSpec } from "../../model/endpoint.ts";
import type { RolloutRequest } from "../../model/request.ts";

/** What the launch form makes, in the API's own spelling. */
export type LaunchRequest = z.input<typeof RolloutRequest> & { n: number };
type TaskInput = LaunchRequest["task"];

/** The same request on every other surface, to be copied as it stands. */
export function toCurl(request: LaunchRequest, origin: string): string {
	return `curl -sS ${origin}/api/v1/rollouts \\
  -H 'content-type: application/json' -H "Authorization: Bearer $PADDOCK_TOKEN" \\
  -d ${quoted(JSON.stringify(withoutKey(request)))}`;
}

export function toPython(request: LaunchRequest, origin: string): string {
	const { task, endpoint, n, ...terms } = request;
	const options = Object.entries(terms).map(([name, value]) => `, ${toSnake(name)}=${toPythonValue(value)}`);
	const common = `task, endpoint=endpoint${options.join("")}`;
	const begin =
		n === 1
			? `print(client.run(${common}).reward)`
			: `for result in client.group(${common.replace("task,", `task, ${n},`)}):\n    print(result.reward)`;
	return `import os

from paddock import Client, Endpoint, Task

client = Client(${toPythonValue(origin)}, token=os.environ.get("PADDOCK_TOKEN"))
task = Task.from_json(${toPythonValue(task)})
endpoint = ${pythonEndpoint(endpoint)}
${begin}`;
}

function pythonEndpoint(endpoint: z.input<typeof EndpointSpec>): string {
	const key = "apiKey" in endpoint && endpoint.apiKey ? ', api_key=os.environ["API_KEY"]' : "";
	if (endpoint.type === "policy") return `Endpoint.policy(${toPythonValue(endpoint.policy)})`;
	if (endpoint.type === "url")
		return `Endpoint.url(${toPythonValue(endpoint.baseUrl)}, ${toPythonValue(endpoint.model)}${key})`;
	const model = endpoint.model ? `, model=${toPythonValue(endpoint.model)}` : "";
	return `Endpoint.named(${toPythonValue(endpoint.name)}${model}${key})`;
}

/** One call of the tool; a group is n such calls. */
export function toMcp(request: LaunchRequest): string {
	const { task, endpoint, mode, sampling } = request;
	const model = "model" in endpoint && endpoint.model ? { model: endpoint.model } : {};
	const target =
		endpoint.type === "policy"
			? { endpoint: "scripted", model: endpoint.policy }
			: endpoint.type === "named"
				? { endpoint: endpoint.name, ...model }
				: { base_url: endpoint.baseUrl, ...model, api_key: "" };
	const call = {
		...target,
		task_id: task.id,
		instruction: task.instruction,
		...(task.setup?.length ? { setup: task.setup } : {}),
		...(task.verify?.length ? { verify: task.verify } : {}),
		...(mode ? { mode } : {}),
		...(sampling?.maxTokensCap ? { max_tokens_cap: sampling.maxTokensCap } : {}),
		...(sampling?.topLogprobs ? { top_logprobs: sampling.topLogprobs } : {}),
		...(task.clocks?.agentS ? { agent_timeout_s: task.clocks.agentS } : {}),
	};
	return JSON.stringify({ name: "run_rollout", arguments: call }, null, 2);
}

/** The task goes into a folder of its own; the command runs it. */
export function toCommandLine(request: LaunchRequest, origin: string): string {
	const { task, endpoint, n, sandbox } = request;
	const folder = task.id.replace(/[^\w.-]+/g, "-") || "task";
	const words = ["npx", "paddock", "run", `./${folder}`, ...modelWords(endpoint)];
	if (n > 1) words.push("-n", String(n));
	if (sandbox !== undefined) words.push("--sandbox", sandbox);
	words.push("--server", origin);
	return `mkdir -p ${folder} && cat > ${folder}/task.yaml <<'TASK'
${toYaml(task)}TASK
${words.map((word) => (/^[\w./:@=-]+$/.test(word) ? word : quoted(word))).join(" ")}`;
}

function modelWords(endpoint: z.input<typeof EndpointSpec>): string[] {
	if (endpoint.type === "policy") return ["--policy", endpoint.policy];
	const key = endpoint.apiKey ? ["--api-key-env", "API_KEY"] : [];
	if (endpoint.type === "url") return ["--base-url", endpoint.baseUrl, "--model", endpoint.model, ...key];
	return ["--endpoint", endpoint.name, ...(endpoint.model ? ["--model", endpoint.model] : []), ...key];
}

/** A task.yaml. JSON is YAML, so each field is one line of it. */
function toYaml({ solution, clocks, budget, box, ...plain }: TaskInput): string {
	const fields = {
		...plain,
		solution: solution?.map((step) =>
			step.tool === "bash"
				? { bash: step.command }
				: step.tool === "write"
					? { write: step.path, content: step.content }
					: { edit: step.path, old: step.old, new: step.new },
		),
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

function withoutKey(request: LaunchRequest): LaunchRequest {
	const { endpoint } = request;
	if (endpoint.type === "policy" || !endpoint.apiKey) return request;
	return { ...request, endpoint: { ...endpoint, apiKey: "YOUR_KEY" } };
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
