import { z } from "zod";

/** Paths a task may rely on in every backend. */
export const HOME = "/home/user";
export const WORKDIR = `${HOME}/workdir`;
export const INSTRUCTION_PATH = `${HOME}/task/instruction.md`;
export const TESTS_DIR = `${HOME}/tests`;
export const AGENT_LOG_DIR = `${HOME}/logs/agent`;
export const VERIFIER_LOG_DIR = `${HOME}/logs/verifier`;

/** One file to stage. `path` is relative to the folder it is staged in, or absolute below /home/user. */
export const TaskFile = z
	.strictObject({
		path: z.string().min(1).max(4096),
		content: z.string(),
		encoding: z.enum(["utf8", "base64"]).default("utf8"),
		executable: z.boolean().default(false),
	})
	.meta({ id: "TaskFile" });
export type TaskFile = z.infer<typeof TaskFile>;

/** One step of a solution, played through the agent's own tools by the `oracle` policy. */
export const SolutionStep = z
	.discriminatedUnion("tool", [
		z.strictObject({ tool: z.literal("write"), path: z.string(), content: z.string() }),
		z.strictObject({ tool: z.literal("edit"), path: z.string(), old: z.string(), new: z.string() }),
		z.strictObject({ tool: z.literal("bash"), command: z.string() }),
	])
	.meta({ id: "SolutionStep" });
export type SolutionStep = z.infer<typeof SolutionStep>;

function toBashStep(command: string): SolutionStep {
	return { tool: "bash", command };
}

/** Lists are counted before what is in them is looked at: a request may bring anything. */
export const MAX_COMMANDS = 1_000;
export const MAX_FILES = 50_000;

const seconds = (fallback: number) => z.number().positive().max(86_400).default(fallback);

/** Every clock is separate and has a default; a rollout can never outlive their sum. */
export const Clocks = z
	.strictObject({
		createS: seconds(60).describe("Opening the sandbox"),
		setupS: seconds(300).describe("All setup commands together"),
		agentS: seconds(600).describe("The agent, from prompt to end"),
		verifyS: seconds(120).describe("Each verify command"),
		teardownS: seconds(30),
	})
	.meta({ id: "Clocks" });
export type Clocks = z.infer<typeof Clocks>;

/** What one rollout may spend; enforced by the gateway. Absent means unlimited, save for maxCalls. */
export const Budget = z
	.strictObject({
		maxCalls: z.int().positive().default(500),
		maxInputTokens: z.int().positive().optional(),
		maxOutputTokens: z.int().positive().optional(),
		maxTotalTokens: z.int().positive().optional(),
	})
	.meta({ id: "Budget" });
export type Budget = z.infer<typeof Budget>;

export const Network = z
	.union([
		z.enum(["none", "internet"]),
		z.strictObject({ allow: z.array(z.string().min(1)).min(1).max(MAX_COMMANDS) }),
	])
	.meta({ id: "Network" });
export type Network = z.infer<typeof Network>;

/** What the task needs of its box. */
export const BoxSpec = z
	.strictObject({
		image: z.string().optional().describe("Container image, or a folder with a Dockerfile; docker only"),
		template: z.string().optional().describe("E2B template name"),
		network: Network.default("none"),
		memoryMb: z.int().min(512).default(2048),
		cpus: z.number().positive().default(2),
		pids: z.int().min(64).default(512),
		diskMb: z.int().min(16).default(1024).describe("Size of the home folder"),
		fileSizeMb: z.int().min(1).default(1024).describe("Largest single file"),
	})
	.meta({ id: "BoxSpec" });
export type BoxSpec = z.infer<typeof BoxSpec>;

export const Task = z
	.strictObject({
		id: z.string().min(1).max(200),
		instruction: z.string().min(1).max(1_000_000),
		files: z
			.array(TaskFile)
			.max(MAX_FILES)
			.default([])
			.describe("Staged before setup; relative paths land in the workdir"),
		setup: z
			.array(z.string())
			.max(MAX_COMMANDS)
			.default([])
			.describe("Shell commands, run one by one before the agent exists"),
		verify: z
			.array(z.string())
			.max(MAX_COMMANDS)
			.default([])
			.describe("Shell commands, run one by one in a clean box after the agent"),
		tests: z
			.array(TaskFile)
			.max(MAX_FILES)
			.default([])
			.describe("Staged at /home/user/tests in the clean box only"),
		rewardFile: z
			.literal("required")
			.optional()
			.describe(
				"required: without reward.json or reward.txt there is no reward, whatever the commands end with",
			),
		artifacts: z
			.array(z.string())
			.max(MAX_COMMANDS)
			.default([])
			.describe("Absolute paths below /home/user, besides the workdir, that the verifier gets"),
		solution: z
			.array(
				z.union([SolutionStep, z.string().transform(toBashStep)], {
					error: 'a step is a shell command, or an object whose "tool" is write, edit or bash',
				}),
			)
			.max(MAX_COMMANDS)
			.default([])
			.describe("Steps; a text alone is a shell command"),
		clocks: Clocks.prefault({}),
		budget: Budget.prefault({}),
		box: BoxSpec.prefault({}),
	})
	.meta({ id: "Task" });
export type Task = z.infer<typeof Task>;
