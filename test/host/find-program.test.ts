import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findServeProgram } from "../../src/host/find-program.ts";

let folder = "";
let onPath = "";
let atHome = "";
beforeAll(async () => {
	folder = await mkdtemp(join(tmpdir(), "paddock-find-"));
	onPath = await makeProgram("path");
	atHome = await makeProgram("home/.opencode/bin");
});
afterAll(() => rm(folder, { recursive: true }));

const nothing = () => null;

test("the program that was named is the one or there is none", async () => {
	const search = { path: join(folder, "path"), home: join(folder, "home") };
	expect(findServeProgram({ ...search, explicit: atHome })).toBe(atHome);
	for (const explicit of [join(folder, "nowhere"), "opencode", folder])
		expect(() => findServeProgram({ ...search, explicit })).toThrow(
			expect.objectContaining({ code: "agent_binary_missing", message: expect.stringContaining(explicit) }),
		);
});

test("else the one that came along, then PATH, then our own home", () => {
	const path = `${join(folder, "empty")}:${join(folder, "path")}`;
	const home = join(folder, "home");
	expect(findServeProgram({ path, home, bundled: () => "/our/opencode" })).toBe("/our/opencode");
	expect(findServeProgram({ path, home, bundled: nothing })).toBe(onPath);
	expect(findServeProgram({ path: "", home, bundled: nothing })).toBe(atHome);
});

test("neither a relative folder of PATH nor what anybody could write is taken", async () => {
	const open = await makeProgram("open");
	await chmod(open, 0o777);
	const path = `.:path:${join(folder, "open")}`;
	const home = join(folder, "nobody");
	expect(() => findServeProgram({ path, home, bundled: nothing })).toThrow(/npm install -g opencode-ai/);
});

async function makeProgram(place: string): Promise<string> {
	await mkdir(join(folder, place), { recursive: true });
	const file = join(folder, place, "opencode");
	await writeFile(file, "#!/bin/sh\n");
	await chmod(file, 0o755);
	return file;
}
