import { z } from "zod";
import { UsageError } from "../errors.ts";
import { LogprobsMode } from "../model/endpoint.ts";
import { Mode, SandboxName, WHICH_SANDBOX } from "../model/request.ts";
import { MAX_COMMANDS, SolutionStep } from "../model/task.ts";
import { unknownKey } from "../model/unknown-keys.ts";

const MAX_INSTRUCTION = 1_000_000;

/** Callers send null for what they leave out; so every argument may be null. */
const text = (describe: string, max = 4_096) => z.string().max(max).nullish().describe(describe);
const commands = (describe: string) =>
	z.array(z.string().min(1).max(MAX_INSTRUCTION)).max(MAX_COMMANDS).nullish().describe(describe);

const sharedShape = {
	instruction: z.string().max(MAX_INSTRUCTION).describe("What the agent is asked to do"),
	task_id: text("Echoed back; rollouts of one task share it. Absent: made from the instruction", 200),
	mode: z
		.enum(["", ...Mode.options])
		.nullish()
		.describe("transparent_proxy (default) captures every model call; black_box captures none"),
	max_tokens_cap: z
		.int()
		.max(10_000_000)
		.nullish()
		.describe("Clamp on max_tokens of each call; 0 or less means no cap. Default 4096"),
	top_logprobs: z
		.int()
		.min(0)
		.max(20)
		.nullish()
		.describe("Alternatives asked for with each token. Default 5"),
	temperature: z.number().min(0).max(10).nullish().describe("Of the sampling. Default 1"),
	continuity: z
		.enum(["auto", "off"])
		.nullish()
		.describe("off: the engine renders every prompt anew. Default auto: a session stays one chain of tokens"),
	keep_reasoning: z
		.boolean()
		.nullish()
		.describe("Go on from a thinking reply also after a person's words. Default false"),
	logprobs_mode: z
		.enum(["", ...LogprobsMode.options])
		.nullish()
		.describe(
			"What the engine's logprobs are of; needed to train on samples of another temperature. Absent: found out where possible",
		),
	agent_timeout_s: z
		.number()
		.positive()
		.max(86_400)
		.nullish()
		.describe("Seconds the agent may work. Default 600"),
	permission: z
		.enum(["", "allow", "deny", "ask"])
		.nullish()
		.describe(
			"Whether tools that change something are allowed (default), denied, or asked for: then start_rollout, subscribe_events and answer",
		),
	network: z
		.union([z.enum(["", "none", "internet"]), z.array(z.string().min(1).max(253)).max(100)])
		.nullish()
		.describe(
			"What the box reaches, setup included: none (default), a list of hosts, or internet where the operator allows it",
		),
	template: text("E2B template name; other sandboxes ignore it", 200),
	sandbox: z
		.union([z.literal(""), SandboxName], { error: WHICH_SANDBOX })
		.nullish()
		.describe("Where the agent runs. Absent: the server's default"),
	solution: z
		.array(z.union([z.string().min(1), SolutionStep]))
		.max(MAX_COMMANDS)
		.nullish()
		.describe(
			"What endpoint scripted plays: shell commands, or {tool: write|edit|bash, …}. Never staged in a box",
		),
	idempotency_key: text(
		"A repeat with the same key returns the first call's rollout and starts nothing; other arguments with it are refused",
		200,
	),
};

const firstShape = {
	endpoint: text(
		"A name of the catalog: vllm, openai, hf_router, scripted, or a stored credential: cred:<label>, pool:<name>. Or base_url and model instead",
		100,
	),
	base_url: text("OpenAI-compatible base URL; /v1 is appended when missing"),
	api_key: text("Key for base_url or endpoint; never stored in clear, never given to the agent"),
	model: text("Model name; for endpoint scripted the policy: oracle (default), noop, cheat-*", 500),
	setup: commands(
		"Shell commands run one by one before the agent starts; the first failure ends the rollout",
	),
	verify: commands("Shell commands run one by one in a clean box afterwards; reward = passed / total"),
	disable_thinking: z
		.boolean()
		.nullish()
		.describe("Ask the model not to think. Absent: the endpoint's default"),
};

const secondShape = {
	model_key: text("vllm://<repo>, hf-router://<repo>:<provider> or scripted://<policy>", 500),
	vllm_url: text("Address of the vLLM server for a vllm:// model_key"),
	hf_token: text("Token for an hf-router:// model_key"),
	test_script: text(
		"Staged as /home/user/tests/test.sh in a clean box and run in the workdir; the reward is what it writes to /home/user/logs/verifier/reward.txt (or .json), null without",
		MAX_INSTRUCTION,
	),
	setup_shell: text("One shell script run before the agent starts", MAX_INSTRUCTION),
	upload_files: z
		.record(z.string().min(1).max(4096), z.string())
		.nullish()
		.describe("Path to content. Relative paths land in the workdir; absolute ones must be below /home/user"),
	thinking: z.boolean().nullish().describe("Let the model think. Default false"),
};

/** The union of both spellings a caller may use; which one was meant is decided by `inOneSpelling`. */
export const RolloutArguments = z.strictObject({ ...sharedShape, ...firstShape, ...secondShape });
export type RolloutArguments = z.infer<typeof RolloutArguments>;

type Given = Partial<RolloutArguments>;

/** What was said in one of the two spellings, without the empty arguments. */
export function inOneSpelling(value: RolloutArguments): Given & { instruction: string } {
	const given = withoutEmpty(value);
	if (given.instruction === undefined)
		throw new UsageError("instruction is required: say what the agent should do", "bad_argument");
	refuseMixedSpellings(given);
	return { ...given, instruction: given.instruction };
}

/** Parses a tool's arguments; what is wrong is said in one sentence that names the argument and the fix. */
export function readArguments<S extends z.ZodObject>(schema: S, value: unknown): z.output<S> {
	const parsed = schema.safeParse(value ?? {}, { reportInput: true });
	if (parsed.success) return parsed.data;
	const known = Object.keys(schema.shape);
	throw new UsageError(
		parsed.error.issues
			.slice(0, 5)
			.map((issue) => sentenceOf(issue, known))
			.join("; "),
		"bad_argument",
	);
}

function sentenceOf(issue: z.core.$ZodIssue, known: string[]): string {
	const argument = issue.path.map(String).join(".");
	if (issue.code === "unrecognized_keys")
		return issue.keys
			.slice(0, 5)
			.map((key) => unknownKey(key, known, "argument"))
			.join("; ");
	if (argument === "") return "arguments must be an object";
	if (issue.code === "too_big" && issue.origin === "string")
		return `${argument} is longer than ${issue.maximum} characters; put long material into files`;
	if (issue.code === "invalid_type" && issue.input === undefined) return `${argument} is required`;
	return `${argument}: ${issue.message}`;
}

/** Whether the second of the two spellings was used; what they share says nothing. */
export function isSecondSpelling(given: Given): boolean {
	return Object.keys(secondShape).some((name) => name in given);
}

/** Which of the two spellings each argument belongs to; the others go with both. */
function refuseMixedSpellings(given: Given): void {
	const first = Object.keys(firstShape).filter((name) => name in given);
	const second = Object.keys(secondShape).filter((name) => name in given);
	// The scripted endpoint has no address, so its short name goes with either spelling.
	const mixed = given.endpoint === "scripted" && given.model_key === undefined ? first.slice(1) : first;
	if (mixed.length === 0 || second.length === 0) return;
	throw new UsageError(
		`${mixed[0]} and ${second[0]} belong to different spellings: use ${Object.keys(firstShape).join(", ")}, or ${Object.keys(secondShape).join(", ")}`,
		"mixed_arguments",
	);
}

function withoutEmpty(value: RolloutArguments): Given {
	return Object.fromEntries(Object.entries(value).filter(([, entry]) => !isEmpty(entry))) as Given;
}

function isEmpty(entry: unknown): boolean {
	if (entry === undefined || entry === null) return true;
	if (typeof entry === "string") return entry.trim() === "";
	return typeof entry === "object" && Object.keys(entry).length === 0;
}
