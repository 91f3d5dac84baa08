import { loadConfig } from "../config.ts";
import { UsageError } from "../errors.ts";
import type { Task } from "../model/task.ts";
import { checkTask } from "../task/check.ts";
import { type Loaded, loadEach } from "../task/load.ts";
import type { Command } from "./command.ts";
import { lackingHere } from "./lacking.ts";
import { warnOn } from "./open-here.ts";
import { openLocalWorkplace } from "./run/workplace.ts";
import { printLine, type Shell } from "./shell.ts";
import { isTrustworthy, type Trial, tryTask } from "./task-trial.ts";
import { plural, showReward } from "./terminal/figures.ts";
import { printable } from "./terminal/style.ts";

export const taskCheck: Command = {
	name: "task check",
	operands: "<task|folder>…",
	summary: "read tasks and say what is wrong or missing; with --run also try them",
	details: `Every problem of every task is said, not only the first. Exit code 2 when a task cannot be read, 1 when one cannot
work as it stands, or when --run finds one that cannot be trusted: its own solution must earn 1, and doing nothing less.`,
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
	async run(args, shell) {
		if (args.operands.length === 0) throw new UsageError("Which task? Name its folder.", "no_task");
		const checks: Check[] = [];
		for await (const loaded of loadEach(args.operands)) checks.push(await toCheck(loaded));
		const report = (check: Check, trial: Trial | null) => {
			if (args.has("json")) printLine(shell.stdout, JSON.stringify(toJson(check, trial)));
			else printCheck(check, trial, shell);
		};
		const tried = args.has("run") ? await tryAll(checks, shell, report) : [];
		if (!args.has("run")) for (const check of checks) report(check, null);
		if (checks.some((check) => check.task === null)) return 2;
		const isSound = checks.every((check) => check.problems.length === 0) && tried.every(isTrustworthy);
		return isSound ? 0 : 1;
	},
};

interface Check {
	name: string;
	task: Task | null;
	/** It cannot be read, or cannot work like this. */
	problems: string[];
	/** It may be meant like this. */
	remarks: string[];
}

async function toCheck({ folder, task, fault }: Loaded): Promise<Check> {
	if (task === null) return { name: folder, task, problems: fault.message.split("\n"), remarks: [] };
	const findings = checkTask(task);
	const messages = (isProblem: boolean) =>
		findings.filter((finding) => finding.isProblem === isProblem).map((finding) => finding.message);
	const remarks = [...messages(false), ...(await lackingHere(task))];
	return { name: task.id, task, problems: messages(true), remarks };
}

/** Each is reported as soon as it is known. What cannot work is not tried. */
async function tryAll(
	checks: readonly Check[],
	shell: Shell,
	report: (check: Check, trial: Trial | null) => void,
): Promise<Trial[]> {
	const config = loadConfig(shell.env, shell.directory);
	await using workplace = await openLocalWorkplace(config, warnOn(shell));
	await workplace.start();
	const trials = checks.map(async (check) => {
		const { task } = check;
		const isTried = task !== null && check.problems.length === 0;
		const say = (text: string) => printLine(shell.stderr, `${printable(check.name)}: ${text}`);
		const trial = isTried ? await tryTask(task, config.sandbox, workplace, say) : null;
		report(check, trial);
		return trial;
	});
	return (await Promise.all(trials)).filter((trial) => trial !== null);
}

function toJson({ name, task, problems, remarks }: Check, trial: Trial | null): object {
	const tried = trial && { oracle: trial.oracle.reward, noop: trial.noop.reward };
	const rollouts = trial && { oracle: trial.oracle.rolloutId, noop: trial.noop.rolloutId };
	return { task_id: task?.id ?? name, problems, remarks, ...tried, rollouts, reasons: trial?.reasons ?? [] };
}

function printCheck(check: Check, trial: Trial | null, shell: Shell): void {
	const { name, task, problems, remarks } = check;
	printLine(shell.stdout, `${printable(name)}: ${task === null ? "cannot be read" : describe(task)}`);
	for (const problem of problems) printLine(shell.stdout, `  PROBLEM: ${printable(problem)}`);
	for (const remark of remarks) printLine(shell.stdout, `  note: ${printable(remark)}`);
	if (trial === null) return;
	const { oracle, noop } = trial;
	const trust = isTrustworthy(trial) ? "ok" : oracle.reward === null ? "CANNOT BE RUN" : "NOT TO BE TRUSTED";
	const earned = `its solution earns ${showReward(oracle.reward)}, doing nothing ${showReward(noop.reward)}`;
	printLine(shell.stdout, `  ${trust}: ${earned}`);
	for (const reason of trial.reasons) printLine(shell.stdout, `  ${printable(reason)}`);
}

function verifiesByScript(task: Task): boolean {
	return task.verify.length === 0 && task.tests.some(({ path }) => path === "test.sh");
}

function describe(task: Task): string {
	return [
		plural(task.files.length, "file"),
		plural(task.setup.length, "setup command"),
		verifiesByScript(task) ? "verified by tests/test.sh" : plural(task.verify.length, "verify command"),
		plural(task.tests.length, "hidden test file"),
		plural(task.solution.length, "solution step"),
	].join(", ");
}
