import type { SolutionStep, Task } from "../model/task.ts";
import type { PolicyStep } from "./policy.ts";

/** The task's solution as tool calls of the agent, one for each reply, then a closing sentence. */
export function playSolution(task: Task): PolicyStep[] {
	if (task.solution.length === 0) {
		return [
			bash("ls -la", "Lists what there is", "I will look around first."),
			{ text: "This task comes without a solution, so there is nothing for me to play." },
		];
	}
	return [...task.solution.flatMap(toSteps), { text: `Done: ${task.id} is solved.` }];
}

export function bash(command: string, description: string, text?: string): PolicyStep {
	const calls = [{ tool: "bash", args: { command, description } }];
	return text === undefined ? { calls } : { text, calls };
}

function toSteps(step: SolutionStep): PolicyStep[] {
	if (step.tool === "bash") return [bash(step.command, "Runs a step of the solution")];
	if (step.tool === "write") {
		const args = { filePath: step.path, content: step.content };
		return [{ text: `I will write ${step.path}.`, calls: [{ tool: "write", args }] }];
	}
	const args = { filePath: step.path, oldString: step.old, newString: step.new };
	return [{ text: `I will change ${step.path}.`, calls: [{ tool: "edit", args }] }];
}
