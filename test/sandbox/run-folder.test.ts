import { chmod, chown, lstat, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { requireOwnFolder } from "../../src/sandbox/lease/own-folder.ts";

const REFUSED = { boundary: "sandbox", code: "run_folder_not_ours" };

let root = "";
beforeEach(async () => {
	root = await mkdtemp(join(tmpdir(), "paddock-run-folder-"));
});
afterEach(() => rm(root, { recursive: true }));

test("a run folder is made for its owner alone, with those above it, and found again", async () => {
	const path = join(root, "a/b");
	await requireOwnFolder(path);
	await requireOwnFolder(path);
	expect((await lstat(path)).mode & 0o777).toBe(0o700);
});

test.for([
	["a link to a folder of our own", (path: string) => symlink(root, path)],
	["a link that leads nowhere", (path: string) => symlink(join(root, "nowhere"), path)],
	["a file", (path: string) => writeFile(path, "")],
	[
		"a folder that others may write to",
		async (path: string) => {
			await mkdir(path);
			await chmod(path, 0o777);
		},
	],
	[
		"a folder that a group may write to",
		async (path: string) => {
			await mkdir(path);
			await chmod(path, 0o770);
		},
	],
] as const)("%s in the place of the run folder is refused, and left as it is", async ([, make]) => {
	const path = join(root, "run");
	await make(path);
	const before = await lstat(path);
	await expect(requireOwnFolder(path)).rejects.toThrow();
	expect((await lstat(path)).mode).toBe(before.mode);
});

test.runIf(process.getuid?.() === 0)("a folder of another user's is refused", async () => {
	const path = join(root, "run");
	await mkdir(path, { mode: 0o700 });
	await chown(path, 54_321, 54_321);
	await expect(requireOwnFolder(path)).rejects.toMatchObject(REFUSED);
});
