import { expect, test } from "vitest";
import { z } from "zod";
import { RolloutRequest } from "../../src/model/request.ts";
import { POLICY_NAMES } from "../../src/policy/names.ts";
import { ENDPOINT_GROUP, GROUPS } from "../../src/ui/data/request-fields.ts";
import { FIRST, fromRollout, POLICIES, problemsOf, toRequest } from "../../src/ui/pages/launch/form.ts";

const task = {
	id: "all of it",
	instruction: "Do it.",
	setup: ["one\ntwo"],
	verify: ["true"],
	files: [{ path: "a.bin", content: "AA==", encoding: "base64" as const }],
	tests: [{ path: "t.sh", content: "exit 0", executable: true }],
	artifacts: ["/home/user/out"],
	solution: [{ tool: "write" as const, path: "a", content: "b" }],
	rewardFile: "required" as const,
	clocks: { createS: 1, setupS: 2, agentS: 3, verifyS: 4, teardownS: 5 },
	budget: { maxCalls: 6, maxInputTokens: 7, maxOutputTokens: 8, maxTotalTokens: 9 },
	box: {
		...{ image: "i", template: "t", network: { allow: ["a.example", "b.example"] }, memoryMb: 600 },
		...{ cpus: 1.5, pids: 99, diskMb: 77, fileSizeMb: 66 },
	},
};
const everything: z.input<typeof RolloutRequest> = {
	task,
	endpoint: {
		...{ type: "named", name: "cred:team", baseUrl: "http://127.0.0.1:1/v1", model: "m", dialect: "sglang" },
		...{ logprobsMode: "raw_logprobs", weightVersion: "step 4" },
	},
	sandbox: "ssh:far",
	mode: "black_box",
	agent: {
		...{
			driver: "run",
			title: true,
			compaction: true,
			contextTokens: 10,
			outputTokens: 11,
			permission: "deny",
		},
		permissionRules: [
			{ tool: "bash", pattern: "git *", action: "allow" },
			{ tool: "edit", pattern: " two  spaces ", action: "ask" },
			{ tool: "*", action: "deny", message: "not\nhere" },
		],
		...{ permissionDeadlineS: 12, permissionDefault: "allow" },
	},
	sampling: {
		...{
			maxTokensCap: 0,
			topLogprobs: 5,
			disableThinking: false,
			temperature: 0,
			topP: 0.5,
			topK: 40,
			minP: 0.1,
		},
		...{ presencePenalty: 1, frequencyPenalty: -1, repetitionPenalty: 1.1, seed: 7, continuity: "off" },
		keepReasoning: true,
	},
	priority: -3,
	labels: { run: "a=b, c", " odd\nname": "{" },
	maxAttempts: 1,
};

const REQUESTS: { what: string; request: z.input<typeof RolloutRequest> }[] = [
	{ what: "everything said", request: everything },
	{
		what: "nothing said",
		request: { task: { id: "t", instruction: "i" }, endpoint: { type: "policy", policy: "noop" } },
	},
	{
		what: "a recording played back",
		request: { ...everything, endpoint: { type: "policy", policy: "replay", trace: "ro_1" } },
	},
	{
		what: "an address",
		request: {
			...everything,
			labels: { run: "4" },
			endpoint: { type: "url", baseUrl: "http://127.0.0.1:1/v1", model: "m", dialect: "plain" },
		},
	},
];

test.for(REQUESTS)("run again sends the same request: $what", ({ request: given }) => {
	const request = RolloutRequest.parse(given);
	const { n, ...again } = toRequest(fromRollout({ request }));
	expect(n).toBe(1);
	expect(RolloutRequest.parse(again)).toEqual(request);
});

test("the form has a field for all that a request can say, with its default", () => {
	const fields = [...GROUPS, ENDPOINT_GROUP].flatMap((group) => group.fields);
	expect(new Set(fields.map((field) => field.path)).size).toBe(fields.length);
	const own = ["task.id", "task.instruction", "task.setup", "task.verify", "task.files", "task.solution"];
	const brought = ["task.tests", "task.artifacts", "task.rewardFile"];
	const rest = [...own, ...brought, "endpoint", "sandbox"];
	const paths = leavesOf(z.toJSONSchema(RolloutRequest, { io: "input" }) as Schema);
	const known = new Map(fields.map((field) => [field.path, field]));
	expect(paths.map(([path]) => path).filter((path) => !known.has(path) && !rest.includes(path))).toEqual([]);
	for (const [path, fallback] of paths)
		if (known.has(path) && typeof fallback !== "object")
			expect([path, known.get(path)!.fallback]).toEqual([path, String(fallback ?? "")]);
	for (const field of fields) expect([field.path, field.help]).not.toEqual([field.path, ""]);
	expect(new Set(POLICIES)).toEqual(new Set(POLICY_NAMES));
});

test("what is wrong is told with the path of its field", () => {
	const tunables = { "sampling.topP": "2", "agent.permissionRules": "allow bash\nperhaps edit" };
	const wrong = problemsOf(toRequest({ ...FIRST, n: "0", instruction: "", tunables }));
	expect(wrong.map(({ path }) => path).sort()).toEqual([
		...["agent.permissionRules.1.action", "n", "sampling.topP", "task.instruction"],
	]);
});

interface Schema {
	properties?: Record<string, Schema>;
	$ref?: string;
	$defs?: Record<string, Schema>;
	default?: unknown;
	allOf?: Schema[];
}

/** Every path that ends in a value, with its default; `endpoint` is one. */
function leavesOf(root: Schema, schema: Schema = root, path = ""): [string, unknown][] {
	const name = (schema.$ref ?? schema.allOf?.[0]?.$ref)?.split("/").at(-1);
	const whole = name === undefined ? schema : { ...root.$defs![name]!, ...schema };
	if (whole.properties === undefined) return [[path, whole.default]];
	return Object.entries(whole.properties).flatMap(([key, each]) =>
		leavesOf(root, each, path === "" ? key : `${path}.${key}`),
	);
}
