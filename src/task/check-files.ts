import { HOME, type Task, type TaskFile, TESTS_DIR } from "../model/task.ts";
import type { TaskFinding } from "./check.ts";

/** Files that commands name and that are not there, cannot be run, or come from a system with other line ends. */
export function* checkFiles(task: Task): Iterable<TaskFinding> {
	for (const command of task.verify) yield* checkTestsOf(command, task);
	for (const command of task.verify) yield* checkPlaceOf(command, task);
	for (const command of [...task.setup, ...task.verify]) yield* checkGivenOf(command, task);
	for (const file of task.tests) yield* checkLineEnds(`tests/${file.path}`, file);
	for (const file of task.files) yield* checkLineEnds(file.path, file);
}

/** `"$HOME/tests/x.sh"` in all its spellings; names with a wildcard or a variable in them cannot be known. */
const TESTS_PATH = new RegExp(
	`["']?(?:\\$HOME|\\$\\{HOME\\}|~|${HOME})/tests/([\\w./-]+)(?![\\w*?\${}[])`,
	"g",
);

function* checkTestsOf(command: string, task: Task): Iterable<TaskFinding> {
	for (const { 0: written, 1: named, index } of command.matchAll(TESTS_PATH)) {
		const path = named!.replace(/\/+$/, "");
		const file = task.tests.find((each) => each.path === path || each.path === `${TESTS_DIR}/${path}`);
		const isFolder = task.tests.some((each) => each.path.startsWith(`${path}/`));
		if (file === undefined && !isFolder) {
			yield problem("test_file_missing", `verify names tests/${path}, which the task does not have.`);
		} else if (file !== undefined && isRun(command, index) && !file.executable) {
			const how = `chmod +x tests/${path}, or run it by its interpreter: bash ${written.replace(/^["']/, "")}`;
			yield problem("script_not_executable", `verify runs tests/${path}, which is not executable: ${how}.`);
		}
	}
}

/** Commands start in the workdir; the tests lie beside it. */
function* checkPlaceOf(command: string, task: Task): Iterable<TaskFinding> {
	for (const { 1: path } of command.matchAll(/(?<![\w/.$~{}])(?:\.\/)?tests\/([\w./-]+)/g)) {
		const isTest = task.tests.some((each) => each.path === path);
		const isGiven = task.files.some((each) => each.path === `tests/${path}`);
		if (isTest && !isGiven)
			yield problem(
				"test_file_missing",
				`verify names tests/${path} in the workdir; the hidden tests lie in "$HOME/tests/${path}".`,
			);
	}
}

function* checkGivenOf(command: string, task: Task): Iterable<TaskFinding> {
	for (const { 1: path, index } of command.matchAll(/(?<![\w/.])\.\/([\w./-]+)/g)) {
		const file = task.files.find((each) => each.path === path);
		if (file === undefined || file.executable || !isRun(command, index)) continue;
		const isMadeSo = [...task.setup, command].some((each) => /\bchmod\b/.test(each));
		if (!isMadeSo)
			yield problem(
				"script_not_executable",
				`./${path} is run but files/${path} is not executable: chmod +x.`,
			);
	}
}

/** Whether the word at `index` is the command itself: first, or first after a separator. */
function isRun(command: string, index: number): boolean {
	return /(^|[;&|(]\s*|\b(then|do|else)\s+)$/.test(command.slice(0, index).trimStart());
}

function* checkLineEnds(path: string, file: TaskFile): Iterable<TaskFinding> {
	const isScript = file.content.startsWith("#!") || /\.(sh|bash)$/.test(path);
	if (file.encoding === "utf8" && isScript && /\r\n/.test(file.content))
		yield problem(
			"crlf_script",
			`${path} has Windows line ends, so no shell here can run it: sed -i 's/\\r$//'.`,
		);
}

function problem(code: string, message: string): TaskFinding {
	return { code, message, isProblem: true };
}
