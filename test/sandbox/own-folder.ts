import { chown, lstat, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { BoxSpec, WORKDIR } from "../../src/model/task.ts";
import type { Backend, Sandbox } from "../../src/sandbox/sandbox.ts";

/** Whoever owns the folder; no user of this machine, where that can be chosen. */
const OWNER = process.getuid?.() === 0 ? 54_321 : process.getuid!();

export interface OwnFolder extends AsyncDisposable {
	root: string;
	folder: string;
}

/** A folder to work in, with a secret beside it and a link that leads there. */
export async function makeOwnFolder(): Promise<OwnFolder> {
	// A box's owner has to be able to come here, so not below a home.
	const root = await realpath(await mkdtemp("/tmp/paddock-folder-"));
	const folder = join(root, "project");
	await mkdir(folder);
	await writeFile(join(root, "secret"), "out of reach");
	await writeFile(join(folder, "given"), "given");
	await symlink(join(root, "secret"), join(folder, "way-out"));
	for (const path of [root, folder, join(folder, "given"), join(root, "secret")])
		await chown(path, OWNER, OWNER);
	return { root, folder, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) };
}

export async function openIn(backend: Backend, folder: string): Promise<Sandbox> {
	return await backend.open({
		spec: BoxSpec.parse({}),
		folder,
		onGateway: (connection) => connection.destroy(),
	});
}

/** It reads and writes the folder, and nothing else of the machine. */
export async function expectWalls(box: Sandbox, { root, folder }: OwnFolder): Promise<void> {
	const run = async (command: string) => {
		const { stdout, stderr } = await box.exec(command, { cwd: WORKDIR });
		return stdout + stderr;
	};
	expect(await run("cat given; echo made > made; mkdir sub && echo deep > sub/deep")).toBe("given");
	expect(await readFile(join(folder, "made"), "utf8")).toBe("made\n");
	expect((await lstat(join(folder, "sub/deep"))).uid).toBe(OWNER);
	expect(await run("cat way-out")).toContain("No such file");
	expect(await run("cat ../secret /tmp/paddock-folder-*/secret")).not.toContain("out of reach");
	expect(await run(`ls -a ${root}`)).not.toContain("secret");
	expect(await run("ln ../secret hard; ls hard")).toContain("No such file");
	expect(await run("touch /usr/bin/x /etc/x")).toMatch(/(Read-only|denied)[\s\S]*(Read-only|denied)/);
	expect(await run("touch /home/user/beside; ls /home/user")).toContain("beside");
	expect(await lstat(join(root, "beside")).catch(() => null)).toBeNull();
}
