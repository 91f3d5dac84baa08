import { lstat, mkdir } from "node:fs/promises";
import { RolloutError } from "../../errors.ts";

/**
 * Makes the folder, or makes sure that it is ours alone. Below /tmp anybody can take a name first, and what lies in a
 * run folder says which processes are ended and which folders are removed.
 */
export async function requireOwnFolder(path: string, mode = 0o700): Promise<void> {
	await mkdir(path, { recursive: true, mode });
	const found = await lstat(path);
	const isOurs = found.uid === (process.getuid?.() ?? found.uid);
	if (found.isDirectory() && isOurs && (found.mode & 0o022) === 0) return;
	throw new RolloutError(
		"sandbox",
		"run_folder_not_ours",
		`${path} belongs to somebody else, or others may write to it: remove it, and it is made anew`,
	);
}
