import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, expect, test } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import { planCgroup } from "../../src/sandbox/local/cgroup.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Backend, Sandbox } from "../../src/sandbox/sandbox.ts";
import { firstProcessOf } from "../fixtures/first-process.ts";
import { requirePart } from "../fixtures/parts.ts";

const spec = BoxSpec.parse({ memoryMb: 512, diskMb: 16, pids: 64 });
/** More than there is: the kernel kills it, and remembers. */
const GLUTTON = `perl -e '$x = "x" x (2 << 30)'; true`;

beforeEach(async (context) => {
	const { version } = await planCgroup("full-box-test");
	requirePart(context, "a writable cgroup", version !== "none", "run as root, or delegate a cgroup v2");
});

async function openBox(backend: Backend): Promise<Sandbox> {
	return await backend.open({ spec, role: "verifier", onGateway: (connection) => connection.destroy() });
}

/** A command that waits in the box, and its pid out here. */
async function startSleeper(box: Sandbox): Promise<number> {
	const mark = `${box.id}-sleeper`;
	await box.spawn(["bash", "-c", "sleep 1000; true", mark]);
	for (;;) {
		for (const name of await readdir("/proc")) {
			const words = await readFile(`/proc/${name}/cmdline`, "latin1").catch(() => "");
			if (words.split("\0")[3] === mark) return Number(name);
		}
		await sleep(20);
	}
}

/** Ended, buried or not: whoever should bury it may be stopped. */
async function untilEnded(pid: number): Promise<void> {
	while (/^State:\s+[^ZX]/m.test(await readFile(`/proc/${pid}/status`, "latin1").catch(() => "")))
		await sleep(20);
}

test("a box that has used up its memory, and is silent, is cleared from outside and answers again", async () => {
	await using backend = await openLocalBackend({ answerTimeoutMs: 4_000 });
	await using box = await openBox(backend);
	await box.exec(GLUTTON);
	const sleeper = await startSleeper(box);
	const init = await firstProcessOf(box.id);
	process.kill(init, "SIGSTOP");
	const answer = box.exec("echo alive");
	await untilEnded(sleeper);
	process.kill(init, "SIGCONT");
	expect((await answer).stdout).toBe("alive\n");
});

test("a box that is silent with memory left is lost, and not cleared before that", async () => {
	await using backend = await openLocalBackend({ answerTimeoutMs: 500 });
	await using box = await openBox(backend);
	const sleeper = await startSleeper(box);
	process.kill(await firstProcessOf(box.id), "SIGSTOP");
	await expect(box.exec("echo alive")).rejects.toMatchObject({ code: "box_unresponsive" });
	expect(existsSync(`/proc/${sleeper}`)).toBe(true);
});

test("a box whose silence may be the work of who is in it is cleared from outside, and answers again", async () => {
	await using backend = await openLocalBackend({ answerTimeoutMs: 4_000 });
	await using box = await openBox(backend);
	const sleeper = await startSleeper(box);
	const init = await firstProcessOf(box.id);
	box.suspect();
	process.kill(init, "SIGSTOP");
	const answer = box.exec("echo alive");
	await untilEnded(sleeper);
	process.kill(init, "SIGCONT");
	expect((await answer).stdout).toBe("alive\n");
});

test("killAll does not need the box's help to end what is in it", async () => {
	await using backend = await openLocalBackend();
	await using box = await openBox(backend);
	const sleeper = await startSleeper(box);
	const init = await firstProcessOf(box.id);
	process.kill(init, "SIGSTOP");
	const done = box.killAll();
	await untilEnded(sleeper);
	process.kill(init, "SIGCONT");
	await done;
	expect((await box.exec("echo alive")).stdout).toBe("alive\n");
});

test("memory that is shared through no file goes with those who shared it", async () => {
	await using backend = await openLocalBackend();
	await using box = await openBox(backend);
	const share = "perl -e 'defined shmget(0, 1 << 20, 0600) or die' && tail -n +2 /proc/sysvipc/shm | wc -l";
	expect((await box.exec(share)).stdout).toBe("1\n");
	await box.killAll();
	expect((await box.exec("tail -n +2 /proc/sysvipc/shm | wc -l")).stdout).toBe("0\n");
});

test("killed after its memory was used up, a box has broken itself; killed without that, it has not", async () => {
	await using backend = await openLocalBackend();
	for (const [command, itself] of [[GLUTTON, true] as const, ["true", false] as const]) {
		await using box = await openBox(backend);
		await box.exec(command);
		expect(await box.hasBrokenItself()).toBe(false);
		process.kill(await firstProcessOf(box.id), "SIGKILL");
		await box.closed;
		expect(await box.hasBrokenItself()).toBe(itself);
	}
});
