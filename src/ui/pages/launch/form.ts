import type { Rollout } from "../../../model/rollout.ts";
import type { Task } from "../../../model/task.ts";
import type { LaunchRequest } from "../../data/same-request.ts";

/** What stands in the form, as it was typed. */
export interface LaunchForm {
	id: string;
	instruction: string;
	setup: string;
	verify: string;
	files: { path: string; content: string }[];
	solution: string;
	source: "policy" | "named" | "url";
	policy: string;
	name: string;
	baseUrl: string;
	model: string;
	apiKey: string;
	sandbox: string;
	n: string;
	mode: string;
	permission: string;
	temperature: string;
	topP: string;
	maxTokensCap: string;
	topLogprobs: string;
	agentS: string;
	maxCalls: string;
	network: string;
	/** What the task brings along that the form has no field for. */
	rest: Partial<TaskInput>;
}

type TaskInput = LaunchRequest["task"];

export const FIRST: LaunchForm = {
	id: "hello",
	instruction: "Write the word hello into hello.txt.",
	setup: "",
	verify: "grep -qx hello hello.txt",
	files: [],
	solution: "echo hello > hello.txt",
	source: "policy",
	policy: "oracle",
	name: "vllm",
	baseUrl: "",
	model: "",
	apiKey: "",
	sandbox: "",
	n: "1",
	mode: "",
	permission: "",
	temperature: "",
	topP: "",
	maxTokensCap: "",
	topLogprobs: "",
	agentS: "",
	maxCalls: "",
	network: "",
	rest: {},
};

/** Only what was said: the server fills in what is left out. */
export function toRequest(form: LaunchForm): LaunchRequest {
	return defined({
		task: defined({
			...form.rest,
			id: form.id.trim() || "task",
			instruction: form.instruction,
			setup: form.rest.setup ?? lines(form.setup),
			verify: form.rest.verify ?? lines(form.verify),
			files: form.rest.files ?? (form.files.length === 0 ? undefined : form.files),
			solution: form.rest.solution ?? lines(form.solution)?.map(toStep),
			clocks: orNothing({ ...form.rest.clocks, agentS: number(form.agentS) }),
			budget: orNothing({ ...form.rest.budget, maxCalls: number(form.maxCalls) }),
			box: orNothing({ ...form.rest.box, ...(form.network === "" ? {} : { network: form.network }) }),
		}),
		endpoint: endpointOf(form),
		sandbox: (form.sandbox || undefined) as LaunchRequest["sandbox"],
		mode: (form.mode || undefined) as LaunchRequest["mode"],
		agent: orNothing({ permission: form.permission as "allow" | "deny" | "ask" | "" }),
		sampling: orNothing({
			temperature: number(form.temperature),
			topP: number(form.topP),
			maxTokensCap: number(form.maxTokensCap),
			topLogprobs: number(form.topLogprobs),
		}),
		n: number(form.n) ?? 1,
	}) as LaunchRequest;
}

function endpointOf(form: LaunchForm): LaunchRequest["endpoint"] {
	if (form.source === "policy") return { type: "policy", policy: form.policy };
	const key = defined({ apiKey: form.apiKey || undefined });
	if (form.source === "url") return { type: "url", baseUrl: form.baseUrl, model: form.model, ...key };
	return { type: "named", name: form.name, ...defined({ model: form.model || undefined }), ...key };
}

function toStep(command: string) {
	return { tool: "bash" as const, command };
}

/** A rollout's request as a form again. */
export function fromRollout({ request }: Rollout): LaunchForm {
	const { task, endpoint, sampling, agent } = request;
	const text = (value: number | undefined) => (value === undefined ? "" : String(value));
	return {
		...FIRST,
		...fromTask(task),
		source: endpoint.type,
		policy: endpoint.type === "policy" ? endpoint.policy : FIRST.policy,
		name: endpoint.type === "named" ? endpoint.name : FIRST.name,
		baseUrl: endpoint.type === "url" ? endpoint.baseUrl : "",
		model: endpoint.type === "policy" ? "" : (endpoint.model ?? ""),
		sandbox: request.sandbox,
		mode: request.mode,
		permission: agent.permission,
		temperature: text(sampling.temperature),
		topP: text(sampling.topP),
		topLogprobs: sampling.topLogprobs === 0 ? "" : text(sampling.topLogprobs),
	};
}

/** The fields that a task fills, e.g. one of the examples. */
export function fromTask(task: Task): Partial<LaunchForm> {
	const isPlain = task.solution.every((step) => step.tool === "bash" && !step.command.includes("\n"));
	const { id, instruction, setup, verify, files, solution, clocks, budget, ...rest } = task;
	const isText = files.every((file) => file.encoding === "utf8" && !file.executable);
	return {
		id,
		instruction,
		setup: "",
		verify: "",
		files: isText ? files.map(({ path, content }) => ({ path, content })) : [],
		solution: isPlain
			? solution.flatMap((step) => (step.tool === "bash" ? step.command : [])).join("\n")
			: "",
		agentS: String(clocks.agentS),
		maxCalls: String(budget.maxCalls),
		...oneLineEach("setup", setup),
		...oneLineEach("verify", verify),
		rest: {
			...rest,
			...(isText ? {} : { files }),
			...(isPlain ? {} : { solution }),
			...(oneLineEach("setup", setup) ? {} : { setup }),
			...(oneLineEach("verify", verify) ? {} : { verify }),
			...{ clocks, budget },
		},
	};
}

/** Commands of several lines do not fit into a field of one command a line. */
function oneLineEach(name: "setup" | "verify", commands: string[]): Partial<LaunchForm> | null {
	return commands.some((command) => command.includes("\n")) ? null : { [name]: commands.join("\n") };
}

function lines(text: string): string[] | undefined {
	const all = text.split("\n").filter((line) => line.trim() !== "");
	return all.length === 0 ? undefined : all;
}

function number(text: string): number | undefined {
	return text.trim() === "" ? undefined : Number(text);
}

function orNothing<T extends object>(value: T): Partial<T> | undefined {
	const said = defined(value);
	return Object.keys(said).length === 0 ? undefined : said;
}

function defined<T extends object>(value: T): T {
	return Object.fromEntries(
		Object.entries(value).filter(([, each]) => each !== undefined && each !== ""),
	) as T;
}
