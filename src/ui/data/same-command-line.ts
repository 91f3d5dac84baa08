import type { z } from "zod";
import type { EndpointSpec } from "../../model/endpoint.ts";
import { type Elsewhere, KEY, type LaunchRequest, quoted, restOf, said, toSnake } from "./same-request.ts";

type TaskInput = LaunchRequest["task"];

/** The task goes into a folder of its own; the command runs it. */
export function toCommandLine(request: LaunchRequest, origin: string): Elsewhere {
	const { task, endpoint, n, sandbox, mode, agent, sampling, labels = {} } = request;
	const { temperature, topLogprobs, continuity, ...moreSampling } = sampling ?? {};
	const { permission, driver, ...moreAgent } = agent ?? {};
	const folder = task.id.replace(/[^\w.-]+/g, "-").replace(/^[.-]+/, "") || "task";
	const [backend, host] = sandbox?.split(":") ?? [];
	const pairs = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
	// The command line parts labels at commas.
	const isSayable = pairs.every((pair) => !pair.includes(",") && pair.trim() === pair);
	const words = [
		...["npx", "paddock", "run", `./${folder}`, ...modelWords(endpoint)],
		...flags({ n: n > 1 ? n : undefined }, "-"),
		...flags({ sandbox: backend, host, mode, driver, permission, temperature, topLogprobs, continuity }),
		...(isSayable && pairs.length > 0 ? ["--label", pairs.join(",")] : []),
		...["--server", origin],
	];
	const isNameable = /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(task.id);
	return {
		text: `mkdir -p ${folder} && cat > ${folder}/task.yaml <<'TASK'
${toYaml(isNameable ? task : { ...task, id: folder })}TASK
${inLines(words.map((word) => (/^[\w./:@=-]+$/.test(word) ? word : quoted(word))))}`,
		missing: [
			...(isNameable ? [] : [`the task's name (here ${folder})`]),
			...said({ task: { rewardFile: task.rewardFile }, agent: moreAgent, sampling: moreSampling }),
			...said({ ...restOf(request), labels: isSayable ? {} : labels }),
			...("dialect" in endpoint && endpoint.dialect !== undefined && endpoint.dialect !== "auto"
				? ["endpoint.dialect"]
				: []),
		],
	};
}

/** One flag a line. */
function inLines(words: readonly string[]): string {
	return words.map((word) => (word.startsWith("-") ? `\\\n  ${word}` : word)).join(" ");
}

function modelWords(endpoint: z.input<typeof EndpointSpec>): string[] {
	if (endpoint.type === "policy") return flags({ policy: endpoint.policy, trace: endpoint.trace });
	const { baseUrl, model, apiKey, logprobsMode, weightVersion } = endpoint;
	return flags({
		endpoint: endpoint.type === "named" ? endpoint.name : undefined,
		...{ baseUrl, model, apiKeyEnv: apiKey ? KEY : undefined, logprobsMode, weightVersion },
	});
}

function flags(values: Record<string, string | number | undefined>, dashes = "--"): string[] {
	return Object.entries(values).flatMap(([name, value]) =>
		value === undefined ? [] : [dashes + toSnake(name).replaceAll("_", "-"), String(value)],
	);
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
