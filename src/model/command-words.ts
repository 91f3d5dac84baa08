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

/** The Python modules that a task runs by `-m`, each with the interpreter it names. */
export function pythonModules(task: Task): Map<string, string> {
	const found = scriptsOf(task).flatMap((script) => [
		...codeOf(script).matchAll(/(?:^|[\s;&|(])(python[\d.]*)\s+(?:-[A-Za-ln-z]+\s+)*-m\s+([\w.]+)/gm),
	]);
	return new Map(found.map((match) => [match[2]!, match[1]!]));
}

/** The first word of a command, without quotes. */
export function firstWord(command: string): string {
	return command.trim().split(/\s+/)[0]!.replaceAll(/["']/g, "");
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
