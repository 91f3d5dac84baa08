import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startTimeOf } from "../../src/host/process.ts";
import { type Lease, reapLeases, takeLease } from "../../src/sandbox/lease/lease.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import { openProcessBackend } from "../../src/sandbox/process/process.ts";
import { requirePart } from "../fixtures/parts.ts";

const description = (boxId: string) => async () => ({
	boxId,
	runDirectory: "/nowhere",
	cgroup: { version: "none" as const, folders: [], note: "" },
});

test("no two boxes get the same uid, however many ask at once", async () => {
	await using folder = await temporaryFolder();
	const taken = await Promise.all(
		Array.from({ length: 40 }, (_, n) => takeLease(folder.path, true, description(`box-${n}`))),
	);
	expect(new Set(taken.map(({ lease }) => lease.uid)).size).toBe(40);
	expect((await readdir(folder.path)).length).toBe(40);
});

test("a living owner's lease is left alone, a dead owner's is handed over once", async () => {
	await using folder = await temporaryFolder();
	await takeLease(folder.path, true, description("mine"));
	await takeOrphan(folder.path, "orphan");
	const destroyed: string[] = [];
	const destroy = async ({ boxId }: Lease) => {
		destroyed.push(boxId);
	};
	const counts = await Promise.all([reapLeases(folder.path, destroy), reapLeases(folder.path, destroy)]);
	expect(counts[0]! + counts[1]!).toBe(1);
	expect(destroyed).toEqual(["orphan"]);
	expect(await readdir(folder.path)).toHaveLength(1);
});

test("a lease of an earlier boot belongs to nobody", async () => {
	await using folder = await temporaryFolder();
	const { lease, path } = await takeLease(folder.path, true, description("old"));
	await writeFile(path, JSON.stringify({ ...lease, owner: { ...lease.owner, bootId: "another" } }));
	expect(await reapLeases(folder.path, async () => {})).toBe(1);
});

test("while an orphan is being destroyed its uid is not given away", async () => {
	await using folder = await temporaryFolder();
	const { lease } = await takeOrphan(folder.path, "orphan");
	let duringUid: number | null = null;
	await reapLeases(folder.path, async () => {
		duringUid = (await takeLease(folder.path, true, description("next"))).lease.uid;
	});
	expect(duringUid).not.toBeNull();
	expect(duringUid).not.toBe(lease.uid);
});

test("a reaper that died is succeeded, one at work is left alone", async () => {
	await using folder = await temporaryFolder();
	const { lease, path } = await takeOrphan(folder.path, "orphan");
	const busy = join(folder.path, `${lease.uid}.reaping-${process.pid}-${startTimeOf(process.pid)}.json`);
	await rename(path, busy);
	expect(await reapLeases(folder.path, async () => {})).toBe(0);
	await rename(busy, join(folder.path, `${lease.uid}.reaping-999999-1.json`));
	expect(await reapLeases(folder.path, async () => {})).toBe(1);
	expect(await readdir(folder.path)).toEqual([]);
});

test("an orphan that cannot be destroyed keeps no other alive, and is tried again", async () => {
	await using folder = await temporaryFolder();
	await takeOrphan(folder.path, "stubborn");
	await takeOrphan(folder.path, "willing");
	const destroyed: string[] = [];
	const destroy = async ({ boxId }: Lease) => {
		if (boxId === "stubborn") throw new Error("busy");
		destroyed.push(boxId);
	};
	await expect(reapLeases(folder.path, destroy)).rejects.toThrow("busy");
	expect(destroyed).toEqual(["willing"]);
	expect(await reapLeases(folder.path, async () => {})).toBe(1);
});

test.for(["running", "frozen"])(
	"after kill -9 of the program, %s local boxes leave nothing behind",
	async (state, context) => {
		await using backend = await openLocalBackend();
		requirePart(context, "bubblewrap", (await backend.available()).ok, "apt-get install bubblewrap");
		const { boxes, pid } = await openAndKill("local", state);
		await gone(async () => {
			await backend.reap();
			return traces(boxes, pid);
		});
		expect(await traces(boxes, pid)).toEqual([]);
	},
);

test("after kill -9 of the program, boxes without walls leave nothing behind", async () => {
	await using backend = await openProcessBackend({ warn: () => {} });
	const { boxes, pid } = await openAndKill("process", "running");
	await gone(async () => {
		await backend.reap();
		return traces(boxes, pid);
	});
	expect(await traces(boxes, pid)).toEqual([]);
});

async function openAndKill(backend: string, state: string): Promise<{ boxes: string[]; pid: number }> {
	const program = join(import.meta.dirname, "lease-owner.ts");
	const owner = spawn(process.execPath, [program, backend, state], { stdio: ["ignore", "pipe", "inherit"] });
	const boxes = await firstLine(owner);
	expect((await traces(boxes, owner.pid!)).length).toBeGreaterThan(0);
	owner.kill("SIGKILL");
	await once(owner, "exit");
	return { boxes, pid: owner.pid! };
}

async function firstLine(owner: ChildProcess): Promise<string[]> {
	let text = "";
	for await (const chunk of owner.stdout!) {
		text += chunk;
		if (text.includes("\n")) break;
	}
	return (JSON.parse(text) as { boxes: string[] }).boxes;
}

/** Everything on this machine that still bears the boxes' names. */
async function traces(boxes: string[], ownerPid: number): Promise<string[]> {
	const found: string[] = [];
	for (const pid of await readdir("/proc")) {
		const line = await readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "");
		if (line.startsWith(`orphan-${ownerPid}`) || boxes.some((box) => line.includes(box)))
			found.push(`process ${pid}`);
	}
	const roots = ["/run/paddock/boxes", join(tmpdir(), `paddock-process-${process.getuid?.()}`, "boxes")];
	for (const controller of ["memory", "pids", "cpu", "cpuacct", "freezer"])
		roots.push(`/sys/fs/cgroup/${controller}/paddock`);
	for (const root of roots)
		for (const box of boxes) if (existsSync(join(root, box))) found.push(join(root, box));
	const mounts = await readFile("/proc/self/mountinfo", "utf8");
	return [...found, ...boxes.filter((box) => mounts.includes(box)).map((box) => `mount of ${box}`)];
}

/** Polls an observable; the test's own clock ends a wait in vain. */
async function gone(look: () => Promise<string[]>): Promise<void> {
	while ((await look()).length > 0) await sleep(20);
}

async function temporaryFolder(): Promise<AsyncDisposable & { path: string }> {
	const path = await mkdtemp(join(tmpdir(), "paddock-lease-"));
	return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A lease whose owner's pid now belongs to another program. */
async function takeOrphan(folder: string, boxId: string): Promise<{ lease: Lease; path: string }> {
	const { lease, path } = await takeLease(folder, true, description(boxId));
	await writeFile(path, JSON.stringify({ ...lease, owner: { ...lease.owner, startTime: "1" } }));
	return { lease, path };
}
