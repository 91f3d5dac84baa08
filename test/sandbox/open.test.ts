import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openBox } from "../../src/sandbox/box/box.ts";
import type { BoxOptions, Launched } from "../../src/sandbox/box/launch.ts";

/** A box whose init never says hello, and a record of what was undone. */
function silent(done: string[], changes: Partial<BoxOptions> = {}): BoxOptions {
	let end = (_: string) => {};
	const exited = new Promise<string>((resolve) => {
		end = resolve;
	});
	const launched: Launched = {
		facts: {},
		exited,
		kill: async () => {
			done.push("killed");
			end("killed");
		},
	};
	return {
		id: "box-silent",
		backend: "none",
		home: "/home/user",
		agentBinary: "/nowhere",
		runDirectory: null,
		onGateway: null,
		launch: async () => launched,
		release: async () => void done.push("released"),
		...changes,
	};
}

test("a box that never says hello is killed and released", async () => {
	const done: string[] = [];
	await expect(openBox(silent(done, { readyTimeoutMs: 10 }))).rejects.toMatchObject({
		code: "box_not_ready",
	});
	expect(done).toEqual(["killed", "released"]);
});

test("an abort while it opens kills and releases it", async () => {
	const done: string[] = [];
	const controller = new AbortController();
	const opening = openBox(silent(done, { signal: controller.signal }));
	controller.abort();
	await expect(opening).rejects.toMatchObject({ name: "AbortError" });
	expect(done.at(-1)).toBe("released");
});

test("an abort before it opens still releases what was taken for it", async () => {
	const done: string[] = [];
	await expect(openBox(silent(done, { signal: AbortSignal.abort() }))).rejects.toThrow();
	expect(done).toEqual(["released"]);
});

test("a launch that fails leaves no socket and says why", async () => {
	const folder = await mkdtemp(join(tmpdir(), "paddock-open-"));
	const done: string[] = [];
	const launch = async () => {
		expect(await readdir(folder)).toEqual(["ctl.sock"]);
		throw new Error("no such engine");
	};
	await expect(openBox(silent(done, { runDirectory: folder, launch }))).rejects.toThrow("no such engine");
	expect(done).toEqual(["released"]);
	expect(await readdir(folder)).toEqual([]);
	await rm(folder, { recursive: true });
});

test("a folder too long for a unix socket is refused by name", async () => {
	const done: string[] = [];
	const opening = openBox(silent(done, { runDirectory: `/tmp/${"x".repeat(120)}` }));
	await expect(opening).rejects.toMatchObject({ code: "run_directory_too_long" });
	expect(done).toEqual(["released"]);
});
