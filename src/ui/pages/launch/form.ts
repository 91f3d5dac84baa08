import type { PermissionRule } from "../../../model/permission.ts";
import { RolloutRequest } from "../../../model/request.ts";
import type { Rollout } from "../../../model/rollout.ts";
import type { Task } from "../../../model/task.ts";
import { ENDPOINT_GROUP, GROUPS, type RequestField } from "../../data/request-fields.ts";
import type { LaunchRequest } from "../../data/same-request.ts";
import { readLines, writeLines } from "./lines.ts";

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
	trace: string;
	name: string;
	baseUrl: string;
	model: string;
	apiKey: string;
	sandbox: string;
	n: string;
	/** By the field's path; empty or absent: nothing was said. */
	tunables: Record<string, string>;
	/** What the task brings along that the form has no field for. */
	rest: Partial<TaskInput>;
}

type TaskInput = LaunchRequest["task"];

export const POLICIES = [
	...["oracle", "noop", "replay", "scripted"],
	...["cheat-reward", "cheat-tests", "cheat-conftest", "cheat-payload", "cheat-daemon"],
];

export const FIRST: LaunchForm = {
	id: "hello",
	instruction: "Write the word hello into hello.txt.",
	setup: "",
	verify: "grep -qx hello hello.txt",
	files: [],
	solution: "echo hello > hello.txt",
	source: "policy",
	policy: "oracle",
	trace: "",
	name: "vllm",
	baseUrl: "",
	model: "",
	apiKey: "",
	sandbox: "",
	n: "1",
	tunables: {},
	rest: {},
};

const FIELDS = GROUPS.flatMap((group) => group.fields);

/** Only what was said: the server fills in what is left out. */
export function toRequest(form: LaunchForm): LaunchRequest {
	const request: Record<string, unknown> = defined({
		task: defined({
			...form.rest,
			id: form.id.trim() || "task",
			instruction: form.instruction,
			setup: form.rest.setup ?? lines(form.setup),
			verify: form.rest.verify ?? lines(form.verify),
			files: form.rest.files ?? (form.files.length === 0 ? undefined : form.files),
			solution: form.rest.solution ?? lines(form.solution)?.map(toStep),
		}),
		endpoint: endpointOf(form),
		sandbox: form.sandbox,
		n: form.n.trim() === "" ? 1 : Number(form.n),
	});
	const fields = form.source === "policy" ? FIELDS : [...FIELDS, ...ENDPOINT_GROUP.fields];
	for (const field of fields) setAt(request, field.path, toValue(field, form.tunables[field.path] ?? ""));
	return request as unknown as LaunchRequest;
}

function endpointOf(form: LaunchForm): object {
	const { source, policy, trace, name, baseUrl, model, apiKey } = form;
	if (source === "policy") return defined({ type: source, policy, trace: policy === "replay" ? trace : "" });
	if (source === "url") return { type: source, baseUrl, model, ...defined({ apiKey }) };
	return defined({ type: source, name, baseUrl, model, apiKey });
}

function toValue({ kind, options, path }: RequestField, text: string): unknown {
	if (text.trim() === "") return undefined;
	if (kind === "lines") return readLines(path, text);
	if (kind === "number") return Number(text);
	return options[0] === "true" ? text === "true" : text;
}

function toText({ kind, path, fallback }: RequestField, value: unknown): string {
	if (value === undefined || String(value) === fallback) return "";
	if (kind !== "lines") return String(value);
	return writeLines(path, value as Record<string, string> | PermissionRule[] | Task["box"]["network"]);
}

/** A rollout's request as a form again: sent off as it is, it is the same request. Only a key does not come back. */
export function fromRollout({ request }: Pick<Rollout, "request">): LaunchForm {
	const { task, endpoint } = request;
	const fields = [...FIELDS, ...ENDPOINT_GROUP.fields];
	return {
		...FIRST,
		...fromTask(task),
		source: endpoint.type,
		policy: endpoint.type === "policy" ? endpoint.policy : FIRST.policy,
		trace: endpoint.type === "policy" ? (endpoint.trace ?? "") : "",
		name: endpoint.type === "named" ? endpoint.name : FIRST.name,
		baseUrl: endpoint.type === "policy" ? "" : (endpoint.baseUrl ?? ""),
		model: endpoint.type === "policy" ? "" : (endpoint.model ?? ""),
		sandbox: request.sandbox,
		tunables: textsOf(fields, request),
	};
}

/** The fields that a task fills, e.g. one of the examples. */
export function fromTask(task: Task): Partial<LaunchForm> {
	const isPlain = task.solution.every((step) => step.tool === "bash" && !step.command.includes("\n"));
	const { id, instruction, setup, verify, files, solution, clocks: _, budget: __, box: ___, ...rest } = task;
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
		tunables: textsOf(
			FIELDS.filter((field) => field.path.startsWith("task.")),
			{ task },
		),
		...oneLineEach("setup", setup),
		...oneLineEach("verify", verify),
		rest: {
			...rest,
			...(isText ? {} : { files }),
			...(isPlain ? {} : { solution }),
			...(oneLineEach("setup", setup) ? {} : { setup }),
			...(oneLineEach("verify", verify) ? {} : { verify }),
		},
	};
}

/** What is wrong, by the path of the field it is wrong in, in the API's own words. */
export function problemsOf(request: LaunchRequest): { path: string; message: string }[] {
	const { n, ...rest } = request;
	const issues = RolloutRequest.safeParse(rest).error?.issues ?? [];
	const isCount = Number.isInteger(n) && n >= 1 && n <= 1024;
	return [
		...issues.map((issue) => ({ path: issue.path.join("."), message: issue.message })),
		...(isCount ? [] : [{ path: "n", message: "a whole number from 1 to 1024" }]),
	];
}

function textsOf(fields: readonly RequestField[], from: object): Record<string, string> {
	return defined(
		Object.fromEntries(fields.map((field) => [field.path, toText(field, at(from, field.path))])),
	);
}

function at(from: object, path: string): unknown {
	let value: unknown = from;
	for (const name of path.split(".")) value = (value as Record<string, unknown> | undefined)?.[name];
	return value;
}

function setAt(target: Record<string, unknown>, path: string, value: unknown): void {
	if (value === undefined) return;
	const names = path.split(".");
	let place = target;
	for (const name of names.slice(0, -1)) {
		place[name] ??= {};
		place = place[name] as Record<string, unknown>;
	}
	place[names.at(-1)!] = value;
}

function toStep(command: string) {
	return { tool: "bash" as const, command };
}

/** Commands of several lines do not fit into a field of one command a line. */
function oneLineEach(name: "setup" | "verify", commands: string[]): Partial<LaunchForm> | null {
	const isEach = commands.every((command) => !command.includes("\n") && command.trim() !== "");
	return isEach ? { [name]: commands.join("\n") } : null;
}

function lines(text: string): string[] | undefined {
	const all = text.split("\n").filter((line) => line.trim() !== "");
	return all.length === 0 ? undefined : all;
}

function defined<T extends object>(value: T): T {
	return Object.fromEntries(
		Object.entries(value).filter(([, each]) => each !== undefined && each !== ""),
	) as T;
}
