import { z } from "zod";
import { BoxSpec, Budget, Clocks, HOME, type SolutionStep, TaskFile } from "../model/task.ts";

/** What may stand in a task.yaml. Keys are snake_case; a typo is an error. */

const commands = z.union([z.string().min(1), z.array(z.string().min(1))]);

const boxPath = z
	.string()
	.min(1)
	.max(4096)
	.refine((path) => !path.split("/").includes(".."), 'must not contain ".."')
	.refine(
		(path) => !path.startsWith("/") || path.startsWith(`${HOME}/`),
		`must be relative, or below ${HOME}`,
	);

const InlineFile = TaskFile.extend({ path: boxPath });

const Step = z.union([
	z.strictObject({ write: boxPath, content: z.string() }),
	z.strictObject({ edit: boxPath, old: z.string().min(1), new: z.string() }),
	z.strictObject({ bash: z.string().min(1) }),
]);

const Limits = z.strictObject({
	create_s: Clocks.shape.createS.removeDefault().optional(),
	setup_s: Clocks.shape.setupS.removeDefault().optional(),
	agent_s: Clocks.shape.agentS.removeDefault().optional(),
	verify_s: Clocks.shape.verifyS.removeDefault().optional(),
	teardown_s: Clocks.shape.teardownS.removeDefault().optional(),
	max_calls: Budget.shape.maxCalls.removeDefault().optional(),
	max_input_tokens: Budget.shape.maxInputTokens,
	max_output_tokens: Budget.shape.maxOutputTokens,
	max_total_tokens: Budget.shape.maxTotalTokens,
});

const Box = z.strictObject({
	image: BoxSpec.shape.image,
	template: BoxSpec.shape.template,
	network: BoxSpec.shape.network.removeDefault().optional(),
	memory_mb: BoxSpec.shape.memoryMb.removeDefault().optional(),
	cpus: BoxSpec.shape.cpus.removeDefault().optional(),
	pids: BoxSpec.shape.pids.removeDefault().optional(),
	disk_mb: BoxSpec.shape.diskMb.removeDefault().optional(),
	file_size_mb: BoxSpec.shape.fileSizeMb.removeDefault().optional(),
});

export const TaskYaml = z.strictObject({
	id: z
		.string()
		.max(200)
		.regex(/^[\p{L}\p{N}][\p{L}\p{M}\p{N}._-]*$/u, "must be letters, digits, dots, dashes and underscores")
		.optional(),
	instruction: z.string().min(1).optional(),
	files: z.array(InlineFile).optional(),
	setup: commands.optional(),
	verify: commands.optional(),
	tests: z.array(InlineFile).optional(),
	artifacts: z.array(boxPath.refine((path) => path.startsWith("/"), "must be absolute")).optional(),
	solution: z.array(Step).optional(),
	limits: Limits.optional(),
	box: Box.optional(),
});
export type TaskYaml = z.infer<typeof TaskYaml>;

export function toSolutionStep(step: z.infer<typeof Step>): SolutionStep {
	if ("write" in step) return { tool: "write", path: step.write, content: step.content };
	if ("edit" in step) return { tool: "edit", path: step.edit, old: step.old, new: step.new };
	return { tool: "bash", command: step.bash };
}

/** The keys each place of a task.yaml may hold, to say what a misspelt one was meant to be. */
export function keysAt(path: readonly PropertyKey[]): string[] {
	if (path.length === 0) return Object.keys(TaskYaml.shape);
	if (path[0] === "limits") return Object.keys(Limits.shape);
	if (path[0] === "box" && path.length > 1) return ["allow"];
	if (path[0] === "box") return Object.keys(Box.shape);
	if (path[0] === "files" || path[0] === "tests") return Object.keys(InlineFile.shape);
	return ["write", "content", "edit", "old", "new", "bash"];
}
