import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { UsageError } from "../errors.ts";
import { nearest } from "../model/nearest.ts";
import { type SolutionStep, Task } from "../model/task.ts";
import { isFolder, readFolder, readText } from "./folder.ts";
import { type TaskYaml, toSolutionStep } from "./schema.ts";
import { parseTaskYaml } from "./yaml.ts";

const TASK_FILE = "task.yaml";
const MAX_DEPTH = 4;

/** Loads the task in `path`: a folder with a task.yaml, or that file itself. Throws UsageError, one sentence each. */
export async function loadTask(path: string): Promise<Task> {
	const folder = basename(path) === TASK_FILE ? dirname(path) : path;
	const file = join(folder, TASK_FILE);
	const text = await readText(file, folder);
	if (text === null)
		throw new UsageError(`There is no task at ${path}: ${file} does not exist.`, "unknown_task");
	const yaml = parseTaskYaml(text, file);
	const [instruction, files, tests, solution] = await allOf([
		instructionOf(yaml, folder),
		readFolder(join(folder, "files"), folder),
		readFolder(join(folder, "tests"), folder),
		solutionOf(yaml, folder),
	]);
	const task = Task.safeParse({
		id: yaml.id ?? toId(basename(resolve(folder))),
		instruction,
		files: [...(yaml.files ?? []), ...files],
		setup: toList(yaml.setup),
		verify: toList(yaml.verify),
		tests: [...(yaml.tests ?? []), ...tests],
		artifacts: yaml.artifacts ?? [],
		solution,
		...toLimits(yaml, folder),
	});
	if (task.success) return task.data;
	const said = task.error.issues.map(({ path, message }) => `${file}: ${path.join(".")}: ${message}.`);
	throw new UsageError(said.join("\n"), "task_yaml_invalid");
}

/** All parts, or everything that is wrong with any of them. */
async function allOf<T extends readonly unknown[]>(parts: { [K in keyof T]: Promise<T[K]> }): Promise<T> {
	const settled = await Promise.allSettled(parts);
	const reasons = settled.flatMap((part) => (part.status === "rejected" ? [part.reason as unknown] : []));
	const bug = reasons.find((reason) => !(reason instanceof UsageError));
	if (bug !== undefined) throw bug;
	const faults = reasons as UsageError[];
	if (faults.length > 0)
		throw new UsageError(faults.map((fault) => fault.message).join("\n"), faults[0]!.code);
	return settled.map((part) => (part.status === "fulfilled" ? part.value : null)) as unknown as T;
}

/** Each path is a task, or a folder of tasks. The order is that of the paths; folders are sorted by name. */
export async function loadTasks(paths: readonly string[]): Promise<Task[]> {
	const tasks: Task[] = [];
	for await (const { task, fault } of loadEach(paths)) {
		if (fault !== null) throw fault;
		tasks.push(task);
	}
	return tasks;
}

export type Loaded =
	| { folder: string; task: Task; fault: null }
	| { folder: string; task: null; fault: UsageError };

/** The same one by one: a task that cannot be read does not keep the next from being read. */
export async function* loadEach(paths: readonly string[]): AsyncGenerator<Loaded> {
	const folders = new Set<string>();
	for (const path of paths) for (const folder of await findTasks(path)) folders.add(folder);
	const seen = new Map<string, string>();
	for (const folder of folders) {
		try {
			const task = await loadTask(folder);
			const other = seen.get(task.id);
			if (other)
				throw new UsageError(`${folder} and ${other} are both called "${task.id}".`, "duplicate_task");
			seen.set(task.id, folder);
			yield { folder, task, fault: null };
		} catch (error) {
			if (!(error instanceof UsageError)) throw error;
			yield { folder, task: null, fault: error };
		}
	}
}

async function findTasks(path: string): Promise<string[]> {
	const found = await stat(path).catch(() => null);
	if (found === null) {
		const meant = await nearestBeside(path);
		const hint = meant === null ? "" : ` Did you mean ${meant}?`;
		throw new UsageError(`There is no task at ${path}: nothing of that name exists.${hint}`, "unknown_task");
	}
	if (found.isFile() && basename(path) === TASK_FILE) return [dirname(path)];
	const folders = found.isDirectory() ? await searchTasks(path, MAX_DEPTH) : [];
	if (folders.length > 0) return folders;
	throw new UsageError(
		`There is no task at ${path}: neither it nor its folders hold a ${TASK_FILE}.`,
		"unknown_task",
	);
}

/** What stands where the path leads to and is called nearly so. */
async function nearestBeside(path: string): Promise<string | null> {
	const names = await readdir(dirname(path)).catch(() => []);
	const meant = nearest(basename(path), names);
	return meant === null ? null : join(dirname(path), meant);
}

async function searchTasks(folder: string, depth: number): Promise<string[]> {
	if ((await stat(join(folder, TASK_FILE)).catch(() => null))?.isFile()) return [folder];
	if (depth === 0) return [];
	const names = (await readdir(folder))
		.filter((name) => !name.startsWith(".") && name !== "node_modules")
		.sort();
	const found: string[] = [];
	for (const name of names) {
		const inner = join(folder, name);
		if (await isFolder(inner)) found.push(...(await searchTasks(inner, depth - 1)));
	}
	return found;
}

async function instructionOf(yaml: TaskYaml, folder: string): Promise<string> {
	const file = join(folder, "instruction.md");
	const text = await readText(file, folder);
	if (text !== null && yaml.instruction !== undefined) {
		throw new UsageError(
			`${file}: the instruction also stands in ${TASK_FILE}; keep one of them.`,
			"task_yaml_invalid",
		);
	}
	const instruction = (yaml.instruction ?? text ?? "").trim();
	if (instruction) return instruction;
	throw new UsageError(
		`${join(folder, TASK_FILE)}: an instruction is missing; give the key "instruction" or an instruction.md beside it.`,
		"task_yaml_invalid",
	);
}

/** The list in task.yaml, or the files of `solution/` and then its solve.sh. */
async function solutionOf(yaml: TaskYaml, folder: string): Promise<SolutionStep[]> {
	const place = join(folder, "solution");
	const files = await readFolder(place, folder);
	if (yaml.solution !== undefined && files.length > 0) {
		throw new UsageError(
			`${place}: the solution also stands in ${TASK_FILE}; keep one of them.`,
			"task_yaml_invalid",
		);
	}
	if (yaml.solution !== undefined) return yaml.solution.map(toSolutionStep);
	const binary = files.find((file) => file.encoding === "base64");
	if (binary) {
		throw new UsageError(
			`${join(place, binary.path)}: a solution is played as text and this is not.`,
			"task_file_invalid",
		);
	}
	const script = files.find((file) => file.path === "solve.sh");
	const writes = files
		.filter((file) => file !== script)
		.map(({ path, content }): SolutionStep => ({ tool: "write", path, content }));
	const executables = files.filter((file) => file !== script && file.executable).map((file) => file.path);
	const steps = [...writes];
	if (executables.length > 0)
		steps.push({ tool: "bash", command: `chmod +x ${executables.map(quote).join(" ")}` });
	if (script) steps.push({ tool: "bash", command: script.content });
	return steps;
}

function toLimits({ limits = {}, box = {} }: TaskYaml, folder: string): object {
	const { create_s, setup_s, agent_s, verify_s, teardown_s, ...budget } = limits;
	return {
		clocks: { createS: create_s, setupS: setup_s, agentS: agent_s, verifyS: verify_s, teardownS: teardown_s },
		budget: {
			maxCalls: budget.max_calls,
			maxInputTokens: budget.max_input_tokens,
			maxOutputTokens: budget.max_output_tokens,
			maxTotalTokens: budget.max_total_tokens,
		},
		box: {
			// A folder with a Dockerfile lies beside the task; anything else is the name of an image.
			image: box.image?.startsWith(".") ? resolve(folder, box.image) : box.image,
			template: box.template,
			network: box.network,
			memoryMb: box.memory_mb,
			cpus: box.cpus,
			pids: box.pids,
			diskMb: box.disk_mb,
			fileSizeMb: box.file_size_mb,
		},
	};
}

/** Letters and digits of any script: a folder is called what its writer calls it. */
function toId(name: string): string {
	const plain = name.normalize("NFC").replaceAll(/[^\p{L}\p{M}\p{N}._-]+/gu, "-");
	return plain.replace(/^[^\p{L}\p{N}]+/u, "").slice(0, 200) || "task";
}

function toList(commands: string | string[] | undefined): string[] {
	return typeof commands === "string" ? [commands] : (commands ?? []);
}

function quote(path: string): string {
	return `'${path.replaceAll("'", "'\\''")}'`;
}
