import { readFile } from "node:fs/promises";
import { BoxSpec } from "../../../src/model/task.ts";
import { planCgroup } from "../../../src/sandbox/local/cgroup.ts";
import type { Sandbox } from "../../../src/sandbox/sandbox.ts";
import type { Finding, Probe, Range } from "./probe.ts";

/** Bombs go off in a box of their own; afterwards that box must still answer, and so must the neighbour. */
function bomb(name: string, spec: object, attack: (box: Sandbox, range: Range) => Promise<Finding>): Probe {
	return {
		name,
		run: async (range) => {
			const options = { spec: BoxSpec.parse(spec), onGateway: (c: { destroy(): void }) => c.destroy() };
			await using own = await range.backend.open(options);
			const finding = await attack(own, range);
			await own.killAll();
			const answers = [await own.exec(["echo", "a"]), await range.neighbour.exec(["echo", "b"])];
			const alive = answers.map(({ stdout }) => stdout).join("") === "a\nb\n";
			return alive ? finding : { contained: false, seen: "a box no longer answers" };
		},
	};
}

const sizeReached = (file: string) => `head -c 2000000000 /dev/zero > ${file}; stat -c %s ${file}`;

export const limitProbes: Probe[] = [
	bomb("fork without end", { pids: 96 }, async (box) => {
		const loop = 'for i in $(seq 400); do sleep 100 & done; echo "started $(jobs -p | wc -l)"';
		const { stdout, stderr } = await box.exec(`${loop} 2>&1`, { timeoutMs: 20_000 });
		const refused = /Resource temporarily unavailable|retry/.test(stdout + stderr);
		return { contained: refused, seen: refused ? "fork refused" : stdout.slice(-60).trim() };
	}),
	bomb("fork without end, for real", { pids: 96 }, async (box) => {
		const { timedOut } = await box.exec("f() { f | f & }; f; sleep 1", { timeoutMs: 3_000 });
		return { contained: true, seen: timedOut ? "stopped" : "starved by its own limit" };
	}),
	bomb("eat memory without end", { memoryMb: 512, diskMb: 16 }, async (box) => {
		const program = "const a=[];for(;;)a.push(Buffer.alloc(16<<20,1))";
		const result = await box.exec([box.agentBinary, "-e", program], {
			cwd: "/",
			env: { BUN_BE_BUN: "1" },
			timeoutMs: 30_000,
		});
		return { contained: result.signal === "SIGKILL" && !result.timedOut, seen: `${result.signal}` };
	}),
	bomb("eat memory in many small processes", { memoryMb: 512, diskMb: 16, pids: 128 }, async (box) => {
		const one = "head -c 60000000 /dev/zero | tail";
		const { timedOut } = await box.exec(`for i in $(seq 20); do (${one}) > /dev/null & done; wait`, {
			timeoutMs: 30_000,
		});
		return { contained: !timedOut, seen: "the kernel killed some; the init was spared" };
	}),
	bomb("fill the home folder", { diskMb: 32 }, async (box) => {
		const { stdout } = await box.exec(sizeReached("fill"));
		return { contained: Number(stdout) <= 32 << 20, seen: `${stdout.trim()} bytes` };
	}),
	bomb("fill /tmp", {}, async (box) => {
		const { stdout } = await box.exec(sizeReached("/tmp/fill"));
		return { contained: Number(stdout) <= 256 << 20, seen: `${stdout.trim()} bytes` };
	}),
	bomb("fill /dev/shm", {}, async (box) => {
		const { stdout } = await box.exec(sizeReached("/dev/shm/fill"));
		return { contained: Number(stdout) <= 64 << 20, seen: `${stdout.trim()} bytes` };
	}),
	bomb("write one huge file", { diskMb: 64, fileSizeMb: 10 }, async (box) => {
		const { stdout } = await box.exec(sizeReached("huge"));
		return { contained: Number(stdout) === 10 << 20, seen: `${stdout.trim()} bytes` };
	}),
	bomb("fill the kernel's memory with empty files", { diskMb: 16, memoryMb: 512 }, async (box) => {
		const before = await memoryUsed(box);
		await box.exec("mkdir many; cd many; seq 60000 | xargs touch", { timeoutMs: 50_000 });
		const charged = (await memoryUsed(box)) - before;
		return { contained: charged > 60_000 * 400, seen: `charged to the box: ${Math.round(charged / 1e6)} MB` };
	}),
	bomb("open descriptors without end", {}, async (box) => {
		const program =
			"const fs=require('fs');let n=0;try{for(;;n++)fs.openSync('/dev/null')}catch(e){console.log(e.code,n)}";
		const { stdout } = await box.exec([box.agentBinary, "-e", program], {
			cwd: "/",
			env: { BUN_BE_BUN: "1" },
		});
		return { contained: /^EMFILE [1-8]\d{3}$/m.test(stdout), seen: stdout.trim() };
	}),
	bomb("flood the log", {}, async (box) => {
		const before = process.memoryUsage().rss;
		const { droppedBytes, stdout } = await box.exec("head -c 200000000 /dev/zero | tr '\\0' x");
		const grown = process.memoryUsage().rss - before;
		const contained = droppedBytes + stdout.length === 200e6 && stdout.length <= 1 << 20 && grown < 160e6;
		return {
			contained,
			seen: `kept ${stdout.length} of 200000000 bytes, grew by ${Math.round(grown / 1e6)} MB`,
		};
	}),
	bomb("flood the log of a process nobody reads", {}, async (box) => {
		const before = process.memoryUsage().rss;
		await using child = await box.spawn(["head", "-c", "200000000", "/dev/zero"]);
		const { exitCode } = await child.exited;
		const grown = process.memoryUsage().rss - before;
		return { contained: exitCode === 0 && grown < 160e6, seen: "dropped" };
	}),
	bomb("burn the processor", { cpus: 0.1 }, async (box) => {
		await using burner = await box.spawn([
			"bash",
			"-c",
			"for i in 1 2; do (while :; do :; done) & done; wait",
		]);
		const throttled = await throttledTimes(box);
		await burner.kill("SIGKILL");
		return { contained: throttled > 0, seen: "held back to its share" };
	}),
];

async function memoryUsed(box: Sandbox): Promise<number> {
	const { folders, version } = await planCgroup(box.id);
	const file = version === "v2" ? "memory.current" : "memory.usage_in_bytes";
	return Number(await readFile(`${folders[0]}/${file}`, "utf8"));
}

/** Waits until the kernel has held the box back; the test's own clock ends a wait in vain. */
async function throttledTimes(box: Sandbox): Promise<number> {
	const folders = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(
		(root) => `${root}/paddock/${box.id}/cpu.stat`,
	);
	for (;;) {
		const stat = await readFile(folders[0]!, "utf8").catch(() => readFile(folders[1]!, "utf8"));
		const times = Number(/nr_throttled (\d+)/.exec(stat)?.[1]);
		if (times > 0) return times;
		await box.exec("sleep 0.1");
	}
}
