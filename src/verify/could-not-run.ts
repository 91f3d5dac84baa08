import type { CommandResult } from "../model/event.ts";
import { HOME, type Task, TESTS_DIR, WORKDIR } from "../model/task.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

/** Something the verifier itself needs, and the box lacks. */
export interface Missing {
	result: CommandResult;
	/** `pytest is not installed in the box`, for a sentence. */
	what: string;
}

/**
 * A test that could not even start says nothing about the agent's work: the task is broken, or meant for another box. What a
 * failed command says is only a hint, since the agent's program may have written it. It counts when the task itself names
 * the program, and the box, asked outside of the agent's folder, does not have it.
 */
export async function findMissing(
	task: Task,
	clean: Sandbox,
	failed: readonly CommandResult[],
	signal: AbortSignal,
): Promise<Missing | null> {
	const words = [...task.verify, ...task.tests.map((file) => file.content)].join("\n");
	for (const result of failed) {
		for (const hint of hintsIn(`${result.stderr}\n${result.stdout}`)) {
			const what = await confirm(hint, words, task, clean, signal);
			if (what !== null) return { result, what };
		}
	}
	return null;
}

type Hint =
	| { type: "program"; name: string }
	| { type: "not-executable"; path: string }
	| { type: "module"; python: string; name: string };

function* hintsIn(output: string): Iterable<Hint> {
	for (const line of output.split("\n").slice(-200)) {
		const module = /^(\S*python[\d.]*): No module named '?([\w.]+)'?\s*$/.exec(line);
		if (module) yield { type: "module", python: module[1]!, name: module[2]! };
		const refused = /(?:^|: )(\/\S+): Permission denied\s*$/.exec(line);
		if (refused) yield { type: "not-executable", path: refused[1]! };
		// bash, dash and env each have their own way to say it.
		const program =
			/(?:^|: )([^\s:'‘]+): (?:command )?not found\s*$/.exec(line) ??
			/(?:^|: )(\/\S+): No such file or directory\s*$/.exec(line) ??
			/env: ['‘]([^'’]+)['’]: No such file/.exec(line);
		if (program) yield { type: "program", name: program[1]!.replace("\\r", "\r") };
	}
}

async function confirm(
	hint: Hint,
	words: string,
	task: Task,
	clean: Sandbox,
	signal: AbortSignal,
): Promise<string | null> {
	const ask = async (script: string, ...args: string[]) =>
		(await clean.exec(["bash", "-c", `cd / && ${script}`, "bash", ...args], { signal })).exitCode === 0;
	if (hint.type === "module") {
		const isAgents = hint.python.startsWith(WORKDIR.replace(HOME, clean.home));
		if (isAgents || !names(words, `-m ${hint.name}`)) return null;
		const look = `import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is None)`;
		const isThere = await ask('"$1" -I -c "$2" "$3" 2>/dev/null', hint.python, look, hint.name);
		return isThere ? null : `the Python module ${hint.name} is not installed in the box`;
	}
	if (hint.type === "not-executable") {
		const own = ownTest(hint.path, task, clean);
		return own && !own.executable ? `tests/${own.path} is not executable` : null;
	}
	if (hint.name.startsWith(`${TESTS_DIR.replace(HOME, clean.home)}/`))
		return ownTest(hint.name, task, clean) ? null : `${hint.name} is not among the task's tests`;
	if (hint.name.includes("/") || !names(words, hint.name)) return null;
	return (await ask('command -v -- "$1" >/dev/null', hint.name))
		? null
		: `${JSON.stringify(hint.name).slice(1, -1)} is not installed in the box`;
}

function ownTest(path: string, task: Task, clean: Sandbox) {
	const folder = `${TESTS_DIR.replace(HOME, clean.home)}/`;
	return path.startsWith(folder)
		? task.tests.find((file) => file.path === path.slice(folder.length))
		: undefined;
}

/** Whether a program stands there as a word of its own. */
function names(words: string, program: string): boolean {
	const literal = program.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
	return new RegExp(`(^|[\\s;&|("'\`/])${literal}($|[\\s;&|)"'\`])`, "m").test(words);
}
