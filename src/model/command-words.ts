import type { Task } from "./task.ts";

/** Words after which a shell still expects a command. */
const PREFIXES = /^(then|do|else|elif|if|while|until|!|time|exec|env|nohup|command|run-untrusted|\w+=\S*)$/;

/**
 * The programs that a task calls by their names, in its verify commands and in the shell scripts among its tests. Comments,
 * texts and a script's own functions are none: otherwise an agent would only have to guess a word of a comment.
 */
export function commandWords(task: Task): Set<string> {
	const words = new Set<string>();
	for (const script of scriptsOf(task)) {
		const code = codeOf(script);
		for (const piece of code.split(/[\n;&|`]|\$\(|\(/)) {
			const word = piece
				.trim()
				.split(/\s+/)
				.find((each) => !PREFIXES.test(each));
			if (word !== undefined && /^[\w.+-]+$/.test(word)) words.add(word);
		}
		for (const [, name] of code.matchAll(/([\w.+-]+)\s*\(\s*\)|\bfunction\s+([\w.+-]+)/g))
			words.delete(name ?? "");
	}
	return words;
}

/** What checks are run with by `-m`. Any other module may be what the agent is to write. */
const CHECKERS = new Set(
	"bandit behave black build coverage flake8 isort mypy nbconvert nose nose2 pip pycodestyle pyflakes pylint pyright pytest robot ruff tox".split(
		" ",
	),
);

/** The Python modules that a task runs by `-m` and a box may lack, each with the interpreter it names. */
export function pythonModules(task: Task): Map<string, string> {
	const found = scriptsOf(task).flatMap((script) => [
		...codeOf(script).matchAll(/(?:^|[\s;&|(])(python[\d.]*)\s+(?:-[A-Za-ln-z]+\s+)*-m\s+([\w.]+)/gm),
	]);
	const given = [...task.setup, ...task.files.map(({ path }) => path)].join("\n");
	// What lies among the tests, as it is or as a wheel, is there, whatever a program under test says.
	const isBrought = (name: string) =>
		task.tests.some(({ path }) => path.split(/[/.-]/).some((part) => part === name));
	const canBeMissing = (name: string) => CHECKERS.has(name) && !isBrought(name) && !given.includes(name);
	return new Map(found.filter((match) => canBeMissing(match[2]!)).map((match) => [match[2]!, match[1]!]));
}

/** Whether a program of that name may be one that the agent was to make: asked for, and looked for where it may have put it. */
export function isAskedFor(name: string, task: Task): boolean {
	const looksElsewhere =
		task.artifacts.length > 0 || scriptsOf(task).some((script) => /\bPATH=/.test(script));
	return looksElsewhere && task.instruction.includes(name);
}

/** The file that a command runs, without quotes: its first word, or the one behind an interpreter's name. */
export function calledFile(command: string): string {
	const [first = "", second = ""] = command
		.trim()
		.split(/\s+/)
		.map((word) => word.replaceAll(/["']/g, ""));
	return /^((ba|da|z)?sh|node|python[\d.]*|perl|ruby)$/.test(first) ? second : first;
}

function scriptsOf(task: Task): string[] {
	const shells = task.tests.filter(
		({ path, content }) => path.endsWith(".sh") || /^#!.*\b(ba|da|z)?sh\b/.test(content),
	);
	return [...task.verify, ...shells.map(({ content }) => content)];
}

/** A shell script without here-documents, texts, comments and the patterns of `case`. */
function codeOf(script: string): string {
	return script
		.replaceAll("\r\n", "\n")
		.replaceAll(/<<-?\s*(['"]?)(\w+)\1[^\n]*\n[\s\S]*?^\s*\2\s*$/gm, "")
		.replaceAll(/'[^']*'|"(?:\\.|[^"\\])*"/g, '""')
		.replaceAll(/(^|\s)#[^\n]*/g, "$1")
		.replaceAll(/\bcase\b[\s\S]*?\besac\b/g, "")
		.replaceAll(/\\\n/g, " ");
}
