import type { Rollout } from "../../../model/rollout.ts";
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
}

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
};

/** Only what was said: the server fills in what is left out. */
export function toRequest(form: LaunchForm): LaunchRequest {
	return defined({
		task: defined({
			id: form.id.trim() || "task",
			instruction: form.instruction,
			setup: lines(form.setup),
			verify: lines(form.verify),
			files: form.files.length === 0 ? undefined : form.files,
			solution: lines(form.solution)?.map((command) => ({ tool: "bash" as const, command })),
			clocks: orNothing({ agentS: number(form.agentS) }),
			budget: orNothing({ maxCalls: number(form.maxCalls) }),
			box: orNothing({ network: form.network as "none" | "internet" | "" }),
		}),
		endpoint: endpointOf(form),
		sandbox: (form.sandbox || undefined) as LaunchRequest["sandbox"],
		mode: (form.mode || undefined) as LaunchRequest["mode"],
		agent: orNothing({ permission: form.permission as "allow" | "ask" | "" }),
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

/** A rollout's request as a form again; what the form has no field for is left out. */
export function fromRollout({ request }: Rollout): LaunchForm {
	const { task, endpoint, sampling } = request;
	const text = (value: number | undefined) => (value === undefined ? "" : String(value));
	return {
		...FIRST,
		id: task.id,
		instruction: task.instruction,
		setup: task.setup.join("\n"),
		verify: task.verify.join("\n"),
		files: task.files
			.filter((file) => file.encoding === "utf8")
			.map(({ path, content }) => ({ path, content })),
		solution: task.solution.flatMap((step) => (step.tool === "bash" ? step.command : [])).join("\n"),
		source: endpoint.type,
		policy: endpoint.type === "policy" ? endpoint.policy : FIRST.policy,
		name: endpoint.type === "named" ? endpoint.name : FIRST.name,
		baseUrl: endpoint.type === "url" ? endpoint.baseUrl : "",
		model: endpoint.type === "policy" ? "" : (endpoint.model ?? ""),
		sandbox: request.sandbox,
		temperature: text(sampling.temperature),
		topP: text(sampling.topP),
	};
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
