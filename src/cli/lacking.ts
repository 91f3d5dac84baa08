import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { commandWords, pythonModules } from "../model/command-words.ts";
import type { Task } from "../model/task.ts";
import { librariesOf } from "../model/test-libraries.ts";

const run = promisify(execFile);
/** What tests are written with. Other words of a script may be programs, or not: to guess would be noise. */
const TOOLS = new Set(
	`bun bundle cargo cc clang cmake curl deno dotnet g++ gcc ghc git go gradle java javac jq julia kotlinc lua make mvn node npm npx
	perl php phpunit pip pip3 pnpm psql pytest python python3 rspec Rscript ruby rustc sqlite3 swift tox uv wget yarn zig`.split(
		/\s+/,
	),
);
const env = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };

/**
 * What a task's tests call and this machine does not have, in sentences. A local box has the programs of its host and no others; an
 * image has its own, and what setup or a file of the task is named after it may well bring.
 */
export async function lackingHere(task: Task): Promise<string[]> {
	if (task.box.image !== undefined || task.box.template !== undefined) return [];
	const brought = [...task.setup, ...[...task.files, ...task.tests].map(({ path }) => path)].join("\n");
	const isLeftToUs = (name: string) => !brought.includes(name);
	const remedy = "install it here, let setup install it, or name an image that has it (docs/tasks.md)";
	return [
		...(
			await lackingPrograms([...commandWords(task)].filter((name) => TOOLS.has(name) && isLeftToUs(name)))
		).map(
			(name) => `its tests call ${name}, which this machine, and so the local box, does not have: ${remedy}.`,
		),
		...(await lackingModules(task, isLeftToUs)).map(
			(name) => `its tests need Python's ${name}, which this machine does not have: ${remedy}.`,
		),
	];
}

/** The shell's own words count as being there. */
async function lackingPrograms(names: string[]): Promise<string[]> {
	const ask = 'for name; do command -v -- "$name" >/dev/null || echo "$name"; done';
	const { stdout } = await run("bash", ["--norc", "-c", ask, "bash", ...names], { env });
	return stdout.split("\n").filter((name) => name !== "");
}

async function lackingModules(task: Task, isWanted: (name: string) => boolean): Promise<string[]> {
	const lacking: string[] = [];
	const look = "import importlib.util as u, sys; sys.exit(9 if u.find_spec(sys.argv[1]) is None else 0)";
	const wanted = [...pythonModules(task), ...librariesOf(task).map((name) => [name, "python3"] as const)];
	for (const [name, python] of new Map(wanted)) {
		if (!isWanted(name)) continue;
		const code = await run(python, ["-I", "-c", look, name.split(".")[0]!], { env }).then(
			() => 0,
			(error: { code?: unknown }) => error.code,
		);
		if (code === 9) lacking.push(name);
	}
	return lacking;
}
