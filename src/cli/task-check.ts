import { loadConfig } from "../config.ts";
import { UsageError } from "../errors.ts";
import { RolloutRequest } from "../model/request.ts";
import type { Task } from "../model/task.ts";
import { checkTask } from "../task/check.ts";
import { loadTasks } from "../task/load.ts";
import type { Command } from "./command.ts";
import { type Console, printLine } from "./console.ts";
import { warnOn } from "./open.ts";
import { openLocalRunner, type Runner } from "./run/runner.ts";
import { plural, showReward } from "./terminal/figures.ts";
import { printable } from "./terminal/style.ts";

export const taskCheck: Command = {
	name: "task check",
	operands: "<task|folder>…",
	summary: "read tasks and say what is wrong or missing; with --run also try them",
	details: `Exit code 2 with file and line when a task cannot be read, 1 when --run finds one that cannot be trusted: its
own solution must earn 1, and doing nothing must earn less.`,
	options: {
		run: { help: "run each task with the policies oracle and noop" },
		json: { help: "one JSON object per task" },
	},
	examples: [
		{ line: "paddock task check my-tasks", says: "reads only" },
		{
			line: "paddock task check my-task --run",
			says: "is it solvable, and does it tell solved from unsolved?",
		},
	],
	async run(args, console) {
		if (args.operands.length === 0) throw new UsageError("Which task? Name its folder.", "no_task");
		const tasks = await loadTasks(args.operands);
		const tried = args.has("run") ? await tryAll(tasks, console) : null;
		for (const task of tasks) {
			const remarks = checkTask(task).map((warning) => warning.message);
			const trial = tried?.get(task.id);
			if (args.has("json"))
				printLine(console.stdout, JSON.stringify({ task_id: task.id, remarks, ...trial }));
			else printTask(task, remarks, trial, console);
		}
		return [...(tried?.values() ?? [])].every(isTrustworthy) ? 0 : 1;
	},
};

/** The rewards of the task's own solution and of doing nothing; null when there was none. */
interface Trial {
	oracle: number | null;
	noop: number | null;
}

function isTrustworthy(trial: Trial): boolean {
	return trial.oracle === 1 && trial.noop !== null && trial.noop < 1;
}

async function tryAll(tasks: readonly Task[], console: Console): Promise<Map<string, Trial>> {
	const config = loadConfig(console.env, console.directory);
	await using runner = await openLocalRunner(config, warnOn(console));
	await runner.start();
	const trials = await Promise.all(
		tasks.map(async (task): Promise<[string, Trial]> => {
			const rewards = ["oracle", "noop"].map((policy) =>
				rewardOf(
					RolloutRequest.parse({ task, endpoint: { type: "policy", policy }, sandbox: config.sandbox }),
					runner,
				),
			);
			const [oracle = null, noop = null] = await Promise.all(rewards);
			return [task.id, { oracle, noop }];
		}),
	);
	return new Map(trials);
}

async function rewardOf(request: RolloutRequest, runner: Runner): Promise<number | null> {
	for await (const { id } of runner.submit([request], 1)) {
		for await (const event of runner.follow(id)) if (event.type === "rollout-end") return event.reward;
	}
	return null;
}

function printTask(task: Task, remarks: readonly string[], trial: Trial | undefined, console: Console): void {
	printLine(console.stdout, `${printable(task.id)}: ${describe(task)}`);
	for (const remark of remarks) printLine(console.stdout, `  note: ${printable(remark)}`);
	if (trial === undefined) return;
	const verdict = isTrustworthy(trial) ? "ok" : "NOT TO BE TRUSTED";
	printLine(
		console.stdout,
		`  ${verdict}: its solution earns ${showReward(trial.oracle)}, doing nothing ${showReward(trial.noop)}`,
	);
}

function describe(task: Task): string {
	return [
		plural(task.files.length, "file"),
		plural(task.setup.length, "setup command"),
		plural(task.verify.length, "verify command"),
		plural(task.tests.length, "hidden test file"),
		plural(task.solution.length, "solution step"),
	].join(", ");
}
