import { lstat, readdir, readFile, realpath, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { UsageError } from "../errors.ts";
import type { TaskFile } from "../model/task.ts";

const MAX_FILE_BYTES = 4 * 1024 * 1024;
const MAX_TOTAL_BYTES = 16 * 1024 * 1024;
const MAX_FILES = 20_000;

/**
 * Every file below `folder`, sorted by path, or nothing when there is no such folder. Links may not lead out of `root`; folders
 * called as one of `except` are left out.
 */
export async function readFolder(
	folder: string,
	root: string,
	except: readonly string[] = [],
): Promise<TaskFile[]> {
	if (!(await isFolder(folder))) return [];
	const files: TaskFile[] = [];
	let total = 0;
	for (const path of await listFiles(folder, except)) {
		const whole = join(folder, path);
		const { size, mode } = await statInside(whole, root);
		total += size;
		if (size > MAX_FILE_BYTES)
			throw tooLarge(whole, `holds ${size} bytes; a file may hold ${MAX_FILE_BYTES}`);
		if (total > MAX_TOTAL_BYTES) throw tooLarge(folder, `holds more than ${MAX_TOTAL_BYTES} bytes`);
		files.push({ path, ...toContent(await readFile(whole)), executable: (mode & 0o111) !== 0 });
	}
	return files;
}

async function listFiles(folder: string, except: readonly string[]): Promise<string[]> {
	const entries = await readdir(folder, { recursive: true, withFileTypes: true });
	const files = entries
		.filter((entry) => !entry.isDirectory())
		.filter(
			(entry) =>
				!relative(folder, entry.parentPath)
					.split(sep)
					.some((name) => except.includes(name)),
		);
	if (files.length > MAX_FILES)
		throw tooLarge(folder, `holds ${files.length} files; ${MAX_FILES} are allowed`);
	return files
		.map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join("/"))
		.sort();
}

/** A task is copied to other machines, so it must be whole in itself. */
async function statInside(path: string, root: string): Promise<{ size: number; mode: number }> {
	if ((await lstat(path)).isSymbolicLink()) {
		const target = await realpath(path).catch(() => null);
		const isInside = target?.startsWith((await realpath(root)) + sep) ?? false;
		if (!isInside)
			throw new UsageError(`${path}: this link leads out of the task's folder.`, "task_link_outside");
	}
	const found = await stat(path);
	if (found.isFile()) return found;
	throw new UsageError(`${path}: a task holds files and folders only.`, "task_file_invalid");
}

/** Text stays readable in traces; anything that is not clean UTF-8 travels as base64. */
function toContent(data: Buffer): { content: string; encoding: "utf8" | "base64" } {
	const text = data.toString("utf8");
	const isText = !text.includes("\0") && Buffer.from(text, "utf8").equals(data);
	return isText
		? { content: text, encoding: "utf8" }
		: { content: data.toString("base64"), encoding: "base64" };
}

export async function isFolder(path: string): Promise<boolean> {
	const found = await lstat(path).catch(() => null);
	return found?.isDirectory() ?? false;
}

/** The text of a small file, or null when there is none. */
export async function readText(path: string, root: string): Promise<string | null> {
	if ((await lstat(path).catch(() => null)) === null) return null;
	const { size } = await statInside(path, root);
	if (size > MAX_FILE_BYTES) throw tooLarge(path, `holds ${size} bytes; a file may hold ${MAX_FILE_BYTES}`);
	return readFile(path, "utf8");
}

function tooLarge(path: string, what: string): UsageError {
	return new UsageError(`${path} ${what}.`, "task_too_large");
}
