import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findFolder } from "../../src/rollout/talk/folder.ts";

test("a folder counts as what its name leads to: a link out of an allowed folder is refused", async () => {
	const root = await realpath(await mkdtemp(join(tmpdir(), "paddock-folder-")));
	try {
		const allowed = join(root, "allowed");
		await mkdir(join(allowed, "project"), { recursive: true });
		await mkdir(join(root, "allowed-not"));
		await mkdir(join(root, "secret"));
		await symlink(join(root, "secret"), join(allowed, "way-out"));
		await symlink(allowed, join(root, "alias"));
		await writeFile(join(allowed, "file"), "");

		const found = await findFolder(join(allowed, "project"), [allowed]);
		expect(found.path).toBe(join(allowed, "project"));
		expect((await findFolder(join(root, "alias/project"), [allowed])).path).toBe(found.path);
		expect((await findFolder(allowed, [join(root, "alias")])).path).toBe(allowed);
		const refusals = [join(allowed, "way-out"), join(allowed, ".."), join(root, "allowed-not"), root, "/"];
		for (const path of refusals)
			await expect(findFolder(path, [allowed]), path).rejects.toMatchObject({ code: "folder_refused" });
		await expect(findFolder(join(allowed, "project"), [])).rejects.toMatchObject({ code: "folder_refused" });
		await expect(findFolder(join(allowed, "none"), [allowed])).rejects.toMatchObject({
			code: "folder_missing",
		});
		await expect(findFolder(join(allowed, "file"), [allowed])).rejects.toMatchObject({
			code: "folder_missing",
		});
		expect((await findFolder(join(root, "secret"), null)).path).toBe(join(root, "secret"));
	} finally {
		await rm(root, { recursive: true });
	}
});
