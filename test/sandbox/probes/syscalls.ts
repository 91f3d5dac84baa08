import type { Sandbox } from "../../../src/sandbox/sandbox.ts";
import type { Probe } from "./probe.ts";

const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

/** Name, x86_64 number, arguments that do no harm should the call get through, and the refusal to expect. */
const CALLS: [name: string, number: number, arguments_: number[], errno: number[]][] = [
	["bpf", 321, [0, 0, 0], [EPERM]],
	["perf_event_open", 298, [0, 0, -1, -1, 0], [EPERM]],
	["userfaultfd", 323, [0], [EPERM]],
	["io_uring_setup", 425, [1, 0], [EPERM]],
	["io_uring_enter", 426, [-1, 0, 0, 0, 0], [EPERM]],
	["keyctl: read the session keyring's id", 250, [0, -3, 0], [EPERM]],
	["add_key", 248, [0, 0, 0, 0, -3], [EPERM]],
	["request_key", 249, [0, 0, 0, -3], [EPERM]],
	["ptrace: attach to pid 1", 101, [16, 1, 0, 0], [EPERM]],
	["process_vm_readv of pid 1", 310, [1, 0, 0, 0, 0, 0], [EPERM]],
	["process_vm_writev of pid 1", 311, [1, 0, 0, 0, 0, 0], [EPERM]],
	["pidfd_getfd", 438, [-1, 0, 0], [EPERM]],
	["kcmp of pid 1 and 2", 312, [1, 2, 0, 0, 0], [EPERM]],
	["process_madvise", 440, [-1, 0, 0, 0, 0], [EPERM]],
	["prlimit of pid 1, only asked", 302, [1, 7, 0, 0], [EPERM]],
	["prlimit of its own parent by number", 302, [2, 7, 0, 0], [EPERM]],
	["sched_setaffinity of pid 1", 203, [1, 0, 0], [EPERM]],
	["sched_setscheduler of pid 1", 144, [1, 0, 0], [EPERM]],
	["sched_setparam of pid 1", 142, [1, 0], [EPERM]],
	["sched_setattr of pid 1", 314, [1, 0, 0], [EPERM]],
	["setpriority of pid 1", 141, [0, 1, 0], [EPERM]],
	["setpriority of everybody of its uid", 141, [2, 0, 0], [EPERM]],
	["ioprio_set of pid 1", 251, [1, 1, 0], [EPERM]],
	["ioprio_set of everybody of its uid", 251, [3, 0, 0], [EPERM]],
	["mount", 165, [0, 0, 0, 0, 0], [EPERM]],
	["umount2", 166, [0, 0], [EPERM]],
	["pivot_root", 155, [0, 0], [EPERM]],
	["chroot", 161, [0], [EPERM]],
	["fsopen", 430, [0, 0], [EPERM]],
	["open_tree", 428, [-1, 0, 0], [EPERM]],
	["move_mount", 429, [-1, 0, -1, 0, 0], [EPERM]],
	["mount_setattr", 442, [-1, 0, 0, 0, 0], [EPERM]],
	["setns", 308, [-1, 0], [EPERM]],
	["unshare: a new user namespace", 272, [0x10000000], [EPERM]],
	["clone: a new user namespace", 56, [0x10000000 | 17, 0, 0, 0, 0], [EPERM]],
	["clone3, whose flags no filter can read", 435, [0, 0], [ENOSYS]],
	["open_by_handle_at", 304, [-1, 0, 0], [EPERM]],
	["name_to_handle_at", 303, [-1, 0, 0, 0, 0], [EPERM]],
	["kexec_load", 246, [0, 0, 0, 0], [EPERM]],
	["init_module", 175, [0, 0, 0], [EPERM]],
	["finit_module", 313, [-1, 0, 0], [EPERM]],
	["reboot, with a wrong magic", 169, [0, 0, 0, 0], [EPERM]],
	["swapon", 167, [0, 0], [EPERM]],
	["acct", 163, [0], [EPERM]],
	["quotactl", 179, [0, 0, 0, 0], [EPERM]],
	["syslog: read the kernel log", 103, [3, 0, 0], [EPERM]],
	["settimeofday", 164, [0, 0], [EPERM]],
	["iopl", 172, [3], [EPERM]],
	["the same calls under x32 numbers", 0x40000000 + 321, [0, 0, 0], [ENOSYS]],
	["socket: vsock, which ignores network namespaces", 41, [40, 1, 0], [EAFNOSUPPORT]],
	["socket: kernel crypto", 41, [38, 5, 0], [EAFNOSUPPORT]],
	["socket: raw packets", 41, [17, 3, 0], [EAFNOSUPPORT]],
	["socket: bluetooth", 41, [31, 1, 0], [EAFNOSUPPORT]],
	["socket: raw ip", 41, [2, 3, 1], [EPERM]],
	["ioctl: type into the terminal", 16, [0, 0x5412, 0], [EPERM]],
	["mknod: a block device", 133, [0, 0o60600, 0x800], [EPERM, 14]],
];

/** Calls that programs need; were one refused, the filter would be too strict rather than too lax. */
const NEEDED: [name: string, number: number, arguments_: number[]][] = [
	["getpid", 39, []],
	["socket: unix", 41, [1, 1, 0]],
	["socket: inet", 41, [2, 1, 0]],
	["socket: inet6", 41, [10, 1, 0]],
	["socket: netlink", 41, [16, 3, 0]],
	["prlimit of itself", 302, [0, 7, 0, 0]],
	["setpriority of itself", 141, [0, 0, 0]],
];

export const syscallProbes: Probe[] = CALLS.map(([name, number, arguments_, errnos]) => ({
	name: `syscall ${name}`,
	run: async ({ box }) => {
		const errno = (await attempt(box)).get(key(number, arguments_)) ?? 0;
		return { contained: errnos.includes(errno), seen: errno === 0 ? "it succeeded" : `errno ${errno}` };
	},
}));

export const neededProbes: Probe[] = NEEDED.map(([name, number, arguments_]) => ({
	name: `syscall ${name} is still allowed`,
	run: async ({ box }) => {
		const errno = (await attempt(box)).get(key(number, arguments_));
		return { contained: errno === 0, seen: `errno ${errno}` };
	},
}));

/** The calls of a box that were decided wrongly, either way; none is as it should be. The numbers are one processor's. */
export async function wronglyDecided(box: Sandbox): Promise<string[]> {
	if (process.arch !== "x64") return [];
	const errnos = await attempt(box);
	const isWrong = ([, number, arguments_, expected = [0]]:
		| (typeof CALLS)[number]
		| (typeof NEEDED)[number]) => !expected.includes(errnos.get(key(number, arguments_)) ?? -1);
	return [...CALLS, ...NEEDED].filter(isWrong).map(([name]) => name);
}

const key = (number: number, arguments_: number[]) => `${number} ${arguments_.join(" ")}`;
const results = new WeakMap<Sandbox, Promise<Map<string, number>>>();

/** All of them in one process inside, by the agent's binary and libc's own syscall(). */
function attempt(box: Sandbox): Promise<Map<string, number>> {
	const known = results.get(box) ?? attemptAll(box);
	results.set(box, known);
	return known;
}

async function attemptAll(box: Sandbox): Promise<Map<string, number>> {
	const calls = [...CALLS, ...NEEDED].map(([, number, arguments_]) => [number, arguments_]);
	const program = `
		const { dlopen, read } = require("bun:ffi");
		const i64 = "i64";
		const { symbols } = dlopen("libc.so.6", {
			syscall: { args: [i64, i64, i64, i64, i64, i64, i64], returns: i64 },
			__errno_location: { args: [], returns: "ptr" },
		});
		const where = symbols.__errno_location();
		const main = process.pid;
		for (const [number, a] of ${JSON.stringify(calls)}) {
			const result = symbols.syscall(number, a[0] ?? 0, a[1] ?? 0, a[2] ?? 0, a[3] ?? 0, a[4] ?? 0, a[5] ?? 0);
			const errno = result < 0n || result < 0 ? read.i32(where, 0) : 0;
			require("fs").writeSync(1, JSON.stringify([number + " " + a.join(" "), errno]) + "\\n");
		}`;
	await box.writeFile("/tmp/syscalls.js", program);
	const { stdout, stderr } = await box.exec([box.agentBinary, "/tmp/syscalls.js"], {
		cwd: "/",
		env: { BUN_BE_BUN: "1" },
		timeoutMs: 30_000,
	});
	const lines = stdout.trim().split("\n");
	if (lines.length !== calls.length) throw new Error(`the probes ended early: ${stderr || stdout}`);
	return new Map(lines.map((line) => JSON.parse(line) as [string, number]));
}
