import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { stage } from "../../src/sandbox/box/staging.ts";

let folder: string;
beforeEach(async () => {
	folder = await mkdtemp(join(tmpdir(), "paddock-staging-"));
});
afterEach(async () => {
	vi.useRealTimers();
	await rm(folder, { recursive: true });
});

test("many that stage at once leave one of everything, and nothing half-made", async () => {
	const root = join(folder, "run");
	const agent = join(folder, "agent");
	await writeFile(agent, "an agent");
	// What is made once for a process is made: the eight go in step.
	const { agent: before } = await stage(root, process.execPath);
	const staged = await Promise.all(Array.from({ length: 8 }, () => stage(root, agent)));
	const { agent: ours, init, runUntrusted, etc } = staged[0]!;
	expect((await readdir(root)).map((name) => join(root, name)).toSorted()).toEqual(
		[before, ours, init, runUntrusted, etc].toSorted(),
	);
});

test("what other installations staged goes after an hour, and comes back when it is asked for", async () => {
	const root = join(folder, "run");
	const [one, other] = [join(folder, "one"), join(folder, "other")];
	await writeFile(one, "one agent");
	await writeFile(other, "another agent");

	const first = await stage(root, one);
	const second = await stage(root, other);
	expect(second.init).toBe(first.init);
	expect(existsSync(first.agent)).toBe(true);

	await writeFile(`${first.agent}.0a0b0c0d`, "half a copy");
	await writeFile(join(root, "leases"), "not staged");
	// Mounted folders are windows, not copies: emptied here, they are empty in running boxes.
	await mkdir(join(root, "etc-0123456789abcdef"));
	vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2 * 3_600_000 });
	await stage(root, other);
	expect((await readdir(root)).map((name) => join(root, name)).toSorted()).toEqual(
		[
			...[second.agent, second.etc, second.init, second.runUntrusted],
			...[join(root, "etc-0123456789abcdef"), join(root, "leases")],
		].toSorted(),
	);

	expect(await readFile((await stage(root, one)).agent, "utf8")).toBe("one agent");
});
