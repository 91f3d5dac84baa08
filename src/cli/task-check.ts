import { UsageError } from "../errors.ts";
import type { Task } from "../model/task.ts";
import { loadTasks } from "../task/load.ts";
import type { Command } from "./command.ts";
import { printLine } from "./console.ts";
import { plural } from "./figures.ts";
import { printable } from "./style.ts";

export const taskCheck: Command = {
	name: "task check",
	operands: "<task|folder>…",
	summary: "read tasks and say what is wrong or missing, without running anything",
	options: { json: { help: "one JSON object per task" } },
	examples: [
		{
			line: "paddock task check my-tasks",
			says: "exit code 2 with file and line when a task cannot be read",
		},
	],
	async run(args, console) {
		if (args.operands.length === 0) throw new UsageError("Which task? Name its folder.", "no_task");
		const tasks = await loadTasks(args.operands);
		for (const task of tasks) {
			const remarks = remarksOn(task);
			if (args.has("json")) {
				printLine(console.stdout, JSON.stringify({ task_id: task.id, remarks }));
				continue;
			}
			printLine(console.stdout, `${printable(task.id)}: ${describe(task)}`);
			for (const remark of remarks) printLine(console.stdout, `  note: ${remark}`);
		}
		return 0;
	},
};

function describe(task: Task): string {
	return [
		plural(task.files.length, "file"),
		plural(task.setup.length, "setup command"),
		plural(task.verify.length, "verify command"),
		plural(task.tests.length, "hidden test file"),
		plural(task.solution.length, "solution step"),
	].join(", ");
}

/** What can be read but will surprise. */
function remarksOn(task: Task): string[] {
	const remarks: string[] = [];
	if (task.verify.length === 0) remarks.push("nothing verifies it, so its reward will be null");
	if (task.verify.length === 0 && task.tests.length > 0)
		remarks.push("its tests are never run: add a verify command");
	if (task.solution.length === 0) remarks.push("it has no solution, so the policy oracle cannot play it");
	return remarks;
}
