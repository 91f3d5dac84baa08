import type { z } from "zod";
import { DialectName, LogprobsMode } from "../../model/endpoint.ts";
import { AgentOptions, RolloutRequest, Sampling } from "../../model/request.ts";
import { BoxSpec, Budget, Clocks } from "../../model/task.ts";

/** A field of the request as the schema knows it. */
export interface RequestField {
	/** `sampling.topP` */
	path: string;
	label: string;
	help: string;
	kind: "number" | "choice" | "text" | "lines";
	options: readonly string[];
	/** What it is when nothing is said, as it would be typed. */
	fallback: string;
}

export interface FieldGroup {
	title: string;
	fields: RequestField[];
}

/** What the schema does not say, since its readers know. */
const HELP: Record<string, string> = {
	"sampling.temperature": "0 always takes the likeliest token",
	"sampling.topP": "only the likeliest tokens that together have this share",
	"sampling.topLogprobs": "alternatives kept with each token",
	"sampling.minP": "only tokens with this share of the likeliest one's chance",
	"sampling.presencePenalty": "against tokens that were there already",
	"sampling.frequencyPenalty": "the more, the more often they were there",
	"sampling.repetitionPenalty": "1 changes nothing",
	"sampling.seed": "for engines that can repeat themselves",
	"agent.driver": "how OpenCode is driven",
	"agent.contextTokens": "what OpenCode takes for the model's context",
	"agent.outputTokens": "what OpenCode asks for at most",
	"agent.permissionRules": "one a line: allow, deny or ask, the tool, the pattern",
	"task.clocks.teardownS": "Closing the sandbox",
	"task.budget.maxCalls": "Model calls",
	"task.budget.maxInputTokens": "Of all prompts together",
	"task.budget.maxOutputTokens": "Sampled, of all calls together",
	"task.budget.maxTotalTokens": "Both together",
	"task.box.network": "none, internet, or one host a line",
	"task.box.memoryMb": "Memory",
	"task.box.cpus": "Processors",
	"task.box.pids": "Processes at once",
	mode: "transparent_proxy captures every call's tokens; black_box none",
	priority: "from -100 to 100; the higher goes first",
	labels: "one name=value a line",
	"endpoint.dialect": "how the engine hands out token ids; auto finds out",
	"endpoint.logprobsMode": "what its logprobs are of; absent: found out where possible",
};

/** All that can be tuned, straight from the schema: what is new there is here, too. */
export const GROUPS: readonly FieldGroup[] = [
	{
		title: "Sampling",
		fields: fieldsOf("sampling", Sampling.shape),
	},
	{
		title: "Agent and permissions",
		fields: [...fieldsOf("", { mode: RolloutRequest.shape.mode }), ...fieldsOf("agent", AgentOptions.shape)],
	},
	{
		title: "Clocks and budgets",
		fields: [...fieldsOf("task.clocks", Clocks.shape), ...fieldsOf("task.budget", Budget.shape)],
	},
	{ title: "Box", fields: fieldsOf("task.box", BoxSpec.shape) },
	{
		title: "Queue and labels",
		fields: fieldsOf("", {
			priority: RolloutRequest.shape.priority,
			maxAttempts: RolloutRequest.shape.maxAttempts,
			labels: RolloutRequest.shape.labels,
		}),
	},
];

/** Of an endpoint that is no policy. */
export const ENDPOINT_GROUP: FieldGroup = {
	title: "Endpoint",
	fields: [
		aField("endpoint.dialect", { kind: "choice", options: DialectName.options }),
		aField("endpoint.logprobsMode", { kind: "choice", options: LogprobsMode.options }),
		aField("endpoint.weightVersion", { help: "Which weights it serves; what the engine says wins" }),
	],
};

function fieldsOf(prefix: string, shape: Record<string, z.core.$ZodType>): RequestField[] {
	return Object.entries(shape).map(([name, schema]) => {
		const path = prefix === "" ? name : `${prefix}.${name}`;
		const { type, fallback, inner } = unwrapped(schema);
		const lists = ["labels", "agent.permissionRules", "task.box.network"];
		return aField(path, {
			help: HELP[path] ?? (schema as z.ZodType).description ?? "",
			fallback: typeof fallback === "object" ? "" : String(fallback ?? ""),
			...(type === "boolean" ? { kind: "choice" as const, options: ["true", "false"] } : {}),
			...(type === "enum"
				? { kind: "choice" as const, options: (inner as z.ZodEnum).options.map(String) }
				: {}),
			...(type === "number" ? { kind: "number" as const } : {}),
			...(lists.includes(path) ? { kind: "lines" as const } : {}),
		});
	});
}

function aField(path: string, more: Partial<RequestField>): RequestField {
	return {
		path,
		label: labelOf(path),
		help: HELP[path] ?? "",
		kind: "text",
		options: [],
		fallback: "",
		...more,
	};
}

/** What is below its default and its option to be absent. */
function unwrapped(schema: z.core.$ZodType): { type: string; fallback: unknown; inner: z.core.$ZodType } {
	let [inner, fallback] = [schema, undefined as unknown];
	while ("innerType" in inner._zod.def) {
		if ("defaultValue" in inner._zod.def) fallback = inner._zod.def.defaultValue;
		inner = inner._zod.def.innerType as z.core.$ZodType;
	}
	return { type: inner._zod.def.type, fallback, inner };
}

/** `maxTokensCap` as words; seconds and megabytes by name. */
function labelOf(path: string): string {
	const words = path
		.split(".")
		.at(-1)!
		.replace(/S$/, " seconds")
		.replace(/Mb$/, " MB")
		.replace(/([a-z])([A-Z])/g, (_, before: string, after: string) => `${before} ${after.toLowerCase()}`)
		.replace("m b", "MB");
	return words[0]!.toUpperCase() + words.slice(1);
}
