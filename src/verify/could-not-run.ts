import { calledFile, commandWords, isAskedFor, pythonModules } from "../model/command-words.ts";
import type { CommandResult } from "../model/event.ts";
import { type Task, TESTS_DIR, WORKDIR } from "../model/task.ts";
import { librariesOf } from "../model/test-libraries.ts";
import { pathIn, type Sandbox } from "../sandbox/sandbox.ts";

/** Something the verifier itself needs, and the box lacks. */
export interface Missing {
	result: CommandResult;
	/** `pytest is not installed in the box`, for a sentence. */
	what: string;
}

/**
 * A test that could not even start says nothing about the agent's work: the task is broken, or meant for another box. What a
 * failed command says is only a hint, since the agent's program may have written it to be rid of its verdict. It counts when the
 * task itself calls for that very thing, and the box, asked outside of the agent's folder, does not have it.
 */
export async function findMissing(
	task: Task,
	clean: Sandbox,
	failed: readonly CommandResult[],
	signal: AbortSignal,
): Promise<Missing | null> {
	for (const result of failed) {
		for (const hint of hintsIn(`${result.stderr}\n${result.stdout}`)) {
			const what = await confirm(hint, result.cmd, task, clean, signal);
			if (what !== null) return { result, what };
		}
	}
	return null;
}

type Hint =
	| { type: "program"; name: string }
	| { type: "interpreter" }
	| { type: "not-executable"; path: string }
	| { type: "no-file"; path: string }
	| { type: "module"; name: string }
	| { type: "import"; name: string };

function* hintsIn(output: string): Iterable<Hint> {
	for (const line of output.split("\n").slice(-200)) {
		const module = /python[\d.]*: No module named '?([\w.]+)'?\s*$/.exec(line);
		if (module) yield { type: "module", name: module[1]! };
		const imported = /^ModuleNotFoundError: No module named '(\w+)[\w.]*'\s*$/.exec(line.replace(/^E +/, ""));
		if (imported) yield { type: "import", name: imported[1]! };
		const refused = /(?:^|: )(\/\S+): Permission denied\s*$/.exec(line);
		if (refused) yield { type: "not-executable", path: refused[1]! };
		const file =
			/(?:^|: )(\/\S+): No such file or directory\s*$/.exec(line) ??
			/(?:can't open file|Cannot find module) '(\/[^']+)'/.exec(line);
		if (file) yield { type: "no-file", path: file[1]! };
		if (/env: ['‘][^'’]+['’]: No such file|: bad interpreter: |: required file not found\s*$/.test(line))
			yield { type: "interpreter" };
		// bash and dash each have their own way to say it.
		const program = /(?:^|: )([^\s:'‘/]+): (?:command )?not found\s*$/.exec(line);
		if (program) yield { type: "program", name: program[1]! };
	}
}

/** Asks a Python whether it has a module. */
const LOOK = "import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is None)";

async function confirm(
	hint: Hint,
	command: string,
	task: Task,
	clean: Sandbox,
	signal: AbortSignal,
): Promise<string | null> {
	const ask = async (script: string, ...args: string[]) =>
		(await clean.exec(["bash", "-c", `cd / && ${script}`, "bash", ...args], { signal })).exitCode === 0;
	switch (hint.type) {
		case "program":
			if (!commandWords(task).has(hint.name) || isAskedFor(hint.name, task)) return null;
			if (await ask('command -v -- "$1" >/dev/null', hint.name)) return null;
			return `${hint.name} is not installed in the box`;
		case "module": {
			const python = pythonModules(task).get(hint.name);
			// The interpreter that the task names must be there, and say no: another that is not says nothing.
			if (python === undefined || !(await ask('"$1" -I -c "" 2>/dev/null', python))) return null;
			const isThere = await ask('"$1" -I -c "$2" "$3" 2>/dev/null', python, LOOK, hint.name);
			if (isThere) return null;
			const isHidden = textsOf(task).some(
				(text) => text.includes("run-untrusted") && text.includes(hint.name),
			);
			return `the Python module ${hint.name} is not installed in the box${isHidden ? ", or lies below ~/tests, which run-untrusted hides" : ""}`;
		}
		case "import": {
			if (!librariesOf(task).includes(hint.name) || !(await ask('python3 -I -c "" 2>/dev/null'))) return null;
			const isThere = await ask('python3 -I -c "$1" "$2" 2>/dev/null', LOOK, hint.name);
			// One of the agent's own is the agent's, wherever it lies.
			const own = 'find "$1" \\( -name "$2" -o -name "$2.*" \\) -print -quit | grep -q .';
			if (isThere || (await ask(own, pathIn(clean, WORKDIR), hint.name))) return null;
			return `a test imports the Python module ${hint.name}, which is not installed in the box`;
		}
		case "interpreter":
			for (const name of interpretersOf(task)) {
				if (await ask('command -v -- "$1" >/dev/null', name)) continue;
				return `${JSON.stringify(name).slice(1, -1)} is not installed in the box`;
			}
			return null;
		case "not-executable": {
			const own = calledTest(hint.path, command, clean);
			const file = task.tests.find(({ path }) => path === own);
			return file !== undefined && !file.executable ? `tests/${file.path} is not executable` : null;
		}
		case "no-file": {
			const own = calledTest(hint.path, command, clean);
			if (own === null || task.tests.some(({ path }) => path === own)) return null;
			return `${hint.path} is not among the task's tests`;
		}
	}
}

/** What the tests' own first lines call for. What lies below the home may be the agent's to write. */
function interpretersOf(task: Task): string[] {
	return task.tests
		.filter(({ executable }) => executable)
		.map(({ content }) => /^#!\s*(?:\/usr\/bin\/env +(?:-S +)?)?([^ \n]+)/.exec(content)?.[1])
		.filter((name) => name !== undefined)
		.filter((name) => !name.includes("/") || (name.startsWith("/") && !name.startsWith("/home/")));
}

function textsOf(task: Task): string[] {
	return [...task.verify, ...task.tests.map(({ content }) => content)];
}

/** Which test the command itself calls, if that is the path that was complained of; below the tests' folder. */
function calledTest(path: string, command: string, clean: Sandbox): string | null {
	const folder = `${pathIn(clean, TESTS_DIR)}/`;
	const called = calledFile(command).replace(/^(\$HOME|\$\{HOME\}|~|\/home\/user)(?=\/)/, clean.home);
	return called === path && path.startsWith(folder) ? path.slice(folder.length) : null;
}
