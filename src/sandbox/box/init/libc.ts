import { dlopen, ptr } from "bun:ffi";
import { constants } from "node:fs";
import { constants as os } from "node:os";

const F_SETFL = 4;
const F_SETOWN = 8;
const F_SETPIPE_SZ = 1031;
const F_DUPFD_CLOEXEC = 1030;
const FIONREAD = 0x541b;
const O_ASYNC = 0x2000;
const O_CLOEXEC = 0x80000;
const PIPE_BYTES = 256 * 1024;
const PR_SET_DUMPABLE = 4;
const PR_SET_CHILD_SUBREAPER = 36;
const PR_SET_NO_NEW_PRIVS = 38;
const SECCOMP = process.arch === "x64" ? 317 : 277;
const SET_FILTER = 1;
const OF_ALL_THREADS = 1;
const WNOHANG = 1;
const SIG_IGN = 1;
const LAST_SIGNAL = 64;
/** The runtime's collector stops threads by the first, the C library changes their rights by the other. */
const OF_THE_RUNTIME = [os.signals.SIGPWR, 33];
/** The C library keeps this one to itself, for the cancelling of threads, which nobody does here. */
const CANCEL = 32;
const RT_SIGACTION = process.arch === "x64" ? 13 : 134;
const RLIMIT_NPROC = 6;
const SHUT_WR = 1;
const SIGKILL = 9;
const IPC_RMID = 0;

const libc = openLibc();

function openLibc() {
	for (const name of ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"]) {
		try {
			return dlopen(name, {
				prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" },
				prlimit: { args: ["i32", "i32", "ptr", "ptr"], returns: "i32" },
				kill: { args: ["i32", "i32"], returns: "i32" },
				signal: { args: ["i32", "u64"], returns: "u64" },
				waitpid: { args: ["i32", "ptr", "i32"], returns: "i32" },
				syscall: { args: ["u64", "u64", "u64", "u64", "u64"], returns: "i32" },
				read: { args: ["i32", "ptr", "u64"], returns: "i32" },
				pipe2: { args: ["ptr", "i32"], returns: "i32" },
				ioctl: { args: ["i32", "u64", "ptr"], returns: "i32" },
				fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
				shmctl: { args: ["i32", "i32", "ptr"], returns: "i32" },
				shutdown: { args: ["i32", "i32"], returns: "i32" },
			}).symbols;
		} catch {
			// The next name.
		}
	}
	throw new Error("no libc found");
}

/** Hides this process's memory and descriptors from code that runs under the same uid. */
export function hideFromOthers(): boolean {
	return libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) === 0;
}

/**
 * From here on the kernel decides by this filter over every call of this process, of all its threads and of whatever they start; a filter
 * that an engine has set goes on beside it. Nothing takes that back.
 */
export function filterSystemCalls(filter: Buffer): void {
	const program = new BigUint64Array([BigInt(filter.length / 8), BigInt(ptr(filter))]);
	const isSet =
		libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) === 0 &&
		systemCall(SECCOMP, SET_FILTER, OF_ALL_THREADS, program) === 0;
	if (!isSet) throw new Error("the box may not filter its system calls: is seccomp forbidden here?");
}

/** Whoever loses its parent below this process becomes this process's child, and not the machine's. */
export function adoptOrphans(): void {
	libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/**
 * Nothing that is sent from inside the box ends this process. The kernel promises as much to the first process of a namespace, but not
 * while one of its threads keeps signals back, as this runtime does around every fork; and what looks like a fault of its own makes the
 * runtime give up. Commands start without this. `kept` are those somebody here waits for.
 */
export function ignoreSignals(kept: readonly NodeJS.Signals[]): void {
	const spared = new Set([...kept.map((name) => os.signals[name]), ...OF_THE_RUNTIME, CANCEL]);
	for (let signal = 1; signal <= LAST_SIGNAL; signal += 1)
		if (!spared.has(signal)) libc.signal(signal, SIG_IGN);
	const ignore = new BigUint64Array([BigInt(SIG_IGN), 0n, 0n, 0n]);
	systemCall(RT_SIGACTION, CANCEL, ignore, 0, 8);
}

/** Takes note of a child's end, so that the kernel can forget it. */
export function reap(pid: number): void {
	libc.waitpid(pid, null, WNOHANG);
}

/** A call of the kernel's that no library knows yet; numbers, or memory that stays alive meanwhile. Less than 0: refused. */
export function systemCall(number: number, ...args: (number | NodeJS.TypedArray)[]): number {
	const words = args.map((arg) => (typeof arg === "number" ? arg : ptr(arg)));
	const [first = 0, second = 0, third = 0, fourth = 0] = words;
	return libc.syscall(number, first, second, third, fourth);
}

/** Of this process, and of those that it starts from now on. */
export function limitProcesses(soft: number, hard: number): void {
	libc.prlimit(0, RLIMIT_NPROC, ptr(new BigUint64Array([BigInt(soft), BigInt(hard)])), null);
}

/** Everything this process may signal but itself and pid 1, in one call. */
export function killEverything(): void {
	libc.kill(-1, SIGKILL);
}

/** A piece of memory that outlives those who shared it. */
export function removeSharedMemory(id: number): void {
	libc.shmctl(id, IPC_RMID, null);
}

/** Closed when a program is executed. */
export function makePipe(): { read: number; write: number } {
	const ends = new Int32Array(2);
	if (libc.pipe2(ptr(ends), O_CLOEXEC) !== 0) {
		throw Object.assign(new Error("no descriptors left for a pipe"), { code: "EMFILE" });
	}
	const [read = -1, write = -1] = ends;
	libc.fcntl(read, F_SETPIPE_SZ, PIPE_BYTES);
	return { read, write };
}

/** Our end of a pipe never makes us wait: the kernel says by SIGIO when there is something to do. */
export function notifyOf(descriptor: number): void {
	libc.fcntl(descriptor, F_SETOWN, process.pid);
	libc.fcntl(descriptor, F_SETFL, constants.O_NONBLOCK | O_ASYNC);
}

/** How much of `into` was filled; 0 at the end, less than 0 when there is nothing yet. */
export function readInto(descriptor: number, into: Buffer): number {
	return libc.read(descriptor, ptr(into), into.length);
}

/** How much waits to be read. */
export function waitingBytes(descriptor: number): number {
	const count = new Int32Array(1);
	return libc.ioctl(descriptor, FIONREAD, ptr(count)) === 0 ? count[0]! : 0;
}

/** A second descriptor of the same socket. */
export function duplicate(descriptor: number): number {
	return libc.fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

/** Says that nothing more will be sent, without giving up what may still come. */
export function endSending(descriptor: number): void {
	libc.shutdown(descriptor, SHUT_WR);
}
