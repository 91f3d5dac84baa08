import { HOME, type SolutionStep, type Task, TESTS_DIR } from "../model/task.ts";
import { runsAgentFiles, runsTests, withoutTrust } from "../model/untrusted.ts";
import { checkFiles } from "./check-files.ts";

/** Something that can be read but will surprise, with what to do about it. */
export interface TaskFinding {
	code: string;
	message: string;
	/** It cannot work like this; otherwise it may be meant. */
	isProblem: boolean;
}

/** What is wrong with a task as far as reading it tells. Running it under oracle, noop and the cheats tells the rest. */
export function checkTask(task: Task): TaskFinding[] {
	return [
		...checkVerify(task),
		...checkTrust(task),
		...checkRepository(task),
		...checkTests(task),
		...checkFiles(task),
		...checkSolution(task),
		...checkLimits(task),
	];
}

function* checkVerify(task: Task): Iterable<TaskFinding> {
	const hasScript = task.tests.some((file) => file.path === "test.sh");
	if (task.verify.length === 0 && !hasScript) {
		const why = task.tests.length > 0 ? "its tests are never run" : "nothing verifies it";
		yield warn("no_verify", `${why}, so its reward will be null: add a verify command or tests/test.sh.`);
	}
	for (const command of task.verify) {
		if (/^\s*(true|:|exit 0)\s*$/.test(command)) {
			yield warn(
				"verify_always_passes",
				`the verify command "${command.trim()}" passes whatever the agent does.`,
			);
		}
		const isOwnScript = task.files.find((file) => file.path && runsFile(command, file.path));
		if (isOwnScript) {
			yield warn(
				"verify_runs_given_file",
				`verify runs ${isOwnScript.path}, which the agent can rewrite: move it to tests/.`,
			);
		}
	}
}

/** Where the verifier sees that a command is nothing but the agent's program, it does so by itself. */
function* checkTrust(task: Task): Iterable<TaskFinding> {
	const commands = task.verify.filter((command) => withoutTrust(command) === command);
	const scripts = task.tests.filter((file) => file.path.endsWith(".sh")).map((file) => file.content);
	const isUsedByTests = task.tests.some((file) => file.content.includes("run-untrusted"));
	for (const script of [...commands, ...scripts]) {
		if (!runsAgentFiles(script) || script.includes("run-untrusted")) continue;
		const [first = ""] = script.split("\n").filter((line) => runsAgentFiles(line));
		if (runsTests(first) && isUsedByTests) continue;
		const remedy = runsTests(first)
			? "call its programs from your tests with run-untrusted before them"
			: "put run-untrusted before it";
		yield warn(
			"runs_agent_code",
			`"${first.trim().slice(0, 80)}" runs what the agent wrote with access to tests and reward: ${remedy} (docs/tasks.md).`,
		);
	}
}

/** git, as a command, in the folder it stands in or the workdir, with a word that asks. */
const ASKS_REPOSITORY =
	/(?:^|[;&|(`]|\b(?:then|do|if)\s)\s*git\s+(?:-c\s+\S+\s+|--no-pager\s+|-C\s+\S*workdir\S*\s+)*(?:archive|blame|branch|cat-file|describe|diff|for-each-ref|fsck|grep|log|ls-files|merge-base|reflog|rev-list|rev-parse|shortlog|show|stash|status|symbolic-ref|tag)\b/;

/** A repository names programs that git runs, and this one was in the agent's hands. */
function* checkRepository(task: Task): Iterable<TaskFinding> {
	const scripts = task.tests.filter((file) => file.path.endsWith(".sh")).map((file) => file.content);
	for (const line of [...task.verify, ...scripts].flatMap((script) => script.split("\n"))) {
		if (/^\s*#|run-untrusted/.test(line) || !ASKS_REPOSITORY.test(line)) continue;
		yield warn(
			"asks_agents_repository",
			`"${line.trim().slice(0, 80)}" lets the agent's repository name programs that git runs: ask as examples/recipes/git-repository/tests/git.sh does.`,
		);
	}
}

function* checkTests(task: Task): Iterable<TaskFinding> {
	const hidden = new Set(task.tests.filter((file) => file.content.trim() !== "").map((file) => file.content));
	for (const file of task.files) {
		if (file.path.startsWith(`${TESTS_DIR}/`)) {
			yield warn(
				"tests_readable",
				`${file.path} is staged before the agent runs, so it can read it: move it to tests/.`,
			);
			continue;
		}
		const isScript = /\.(sh|py|m?[jt]s)$/.test(file.path);
		if (isScript && hidden.has(file.content)) {
			yield warn("tests_readable", `${file.path} is also one of the hidden tests, so the agent can read it.`);
		}
	}
	for (const command of task.setup) {
		if (command.includes(TESTS_DIR) || /(\$HOME|~)\/tests\b/.test(command)) {
			yield warn("setup_uses_tests", `setup names ${TESTS_DIR}, which is empty until the agent is gone.`);
		}
	}
}

function* checkSolution(task: Task): Iterable<TaskFinding> {
	if (task.solution.length === 0) {
		yield warn(
			"no_solution",
			"it has no solution, so nobody knows whether it can be solved: add one for oracle to play.",
		);
	}
	const written = new Map(task.files.map((file) => [file.path, file.content]));
	let isKnown = task.setup.length === 0;
	for (const [index, step] of task.solution.entries()) {
		const fault = isKnown ? editFault(step, written) : null;
		if (fault) yield warn("edit_does_not_fit", `step ${index + 1} of the solution ${fault}.`);
		if (step.tool === "write") written.set(step.path, step.content);
		if (step.tool === "edit")
			written.set(
				step.path,
				(written.get(step.path) ?? "").replace(step.old, () => step.new),
			);
		if (step.tool === "bash") isKnown = false;
		if (step.tool !== "bash" && step.path.startsWith("/") && !step.path.startsWith(`${HOME}/`)) {
			yield warn(
				"solution_outside_home",
				`step ${index + 1} of the solution touches ${step.path}, outside of ${HOME}.`,
			);
		}
	}
}

/** The edit tool wants the old text to stand in the file exactly once. */
function editFault(step: SolutionStep, written: ReadonlyMap<string, string>): string | null {
	if (step.tool !== "edit") return null;
	const content = written.get(step.path);
	if (content === undefined) return `edits ${step.path}, which does not exist by then`;
	const count = content.split(step.old).length - 1;
	return count === 1 ? null : `edits text that stands ${count} times in ${step.path}, not once`;
}

function* checkLimits(task: Task): Iterable<TaskFinding> {
	if (typeof task.box.network === "string" && task.box.network === "internet") {
		yield warn(
			"open_network",
			"its box can reach the whole internet, where solutions may be found: prefer an allow list.",
		);
	}
	if (task.budget.maxCalls < task.solution.length + 1) {
		yield warn(
			"budget_too_small",
			`its solution takes ${task.solution.length + 1} calls, max_calls allows ${task.budget.maxCalls}.`,
		);
	}
}

/** Whether a shell command runs a file of that path from the workdir. */
function runsFile(command: string, path: string): boolean {
	const name = path.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
	return new RegExp(
		`(^|[;&|]\\s*)((ba|z|da)?sh|node|bun|python3?|pytest)\\s+(\\./)?${name}(\\s|$)|(^|[\\s;&|])\\./${name}(\\s|$)`,
	).test(command);
}

function warn(code: string, message: string): TaskFinding {
	return { code, message, isProblem: false };
}
