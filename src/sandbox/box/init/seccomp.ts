/** The calls a box has no business making; everything else is allowed. */
const DENIED = [
	// Large kernel attack surface, reachable without privilege.
	["bpf", 321, 280],
	["perf_event_open", 298, 241],
	["userfaultfd", 323, 282],
	["io_uring_setup", 425, 425],
	["io_uring_enter", 426, 426],
	["io_uring_register", 427, 427],
	// Kernel keyrings are only partly namespaced.
	["keyctl", 250, 219],
	["add_key", 248, 217],
	["request_key", 249, 218],
	// No rearranging of the mount view.
	["mount", 165, 40],
	["umount2", 166, 39],
	["pivot_root", 155, 41],
	["chroot", 161, 51],
	["open_tree", 428, 428],
	["move_mount", 429, 429],
	["fsopen", 430, 430],
	["fsconfig", 431, 431],
	["fsmount", 432, 432],
	["fspick", 433, 433],
	["mount_setattr", 442, 442],
	// A nested user namespace gives capabilities back.
	["setns", 308, 268],
	["unshare", 272, 97],
	// Other processes of the same uid: the box's own pid 1 above all.
	["ptrace", 101, 117],
	["process_vm_readv", 310, 270],
	["process_vm_writev", 311, 271],
	["pidfd_getfd", 438, 438],
	["kcmp", 312, 272],
	["process_madvise", 440, 440],
	// Administration of the host.
	["kexec_load", 246, 104],
	["kexec_file_load", 320, 294],
	["init_module", 175, 105],
	["finit_module", 313, 273],
	["delete_module", 176, 106],
	["reboot", 169, 142],
	["swapon", 167, 224],
	["swapoff", 168, 225],
	["acct", 163, 89],
	["quotactl", 179, 60],
	["quotactl_fd", 443, 443],
	["settimeofday", 164, 170],
	["clock_settime", 227, 112],
	["adjtimex", 159, 171],
	["clock_adjtime", 305, 266],
	["iopl", 172, null],
	["ioperm", 173, null],
	["syslog", 103, 116],
	["lookup_dcookie", 212, 18],
	// File handles can reach outside the mount view.
	["name_to_handle_at", 303, 264],
	["open_by_handle_at", 304, 265],
	["fanotify_init", 300, 262],
] as const satisfies readonly (readonly [string, number, number | null])[];

interface Machine {
	audit: number;
	column: 1 | 2;
	clone: number;
	clone3: number;
	socket: number;
	socketpair: number;
	ioctl: number;
	prlimit: number;
	/** Of another process by its number, the first argument: affinity, scheduler, its parameters, attributes. */
	scheduling: number[];
	/** Of a process, a group or a whole user, as the first argument says, and which one: time, and turns at the disk. */
	priorities: { call: number; ofUser: number }[];
	/** x86_64 has a second table of the same calls under high numbers. */
	highTable: number | null;
}

const MACHINES: Record<string, Machine> = {
	x64: {
		audit: 0xc000003e,
		column: 1,
		clone: 56,
		clone3: 435,
		socket: 41,
		socketpair: 53,
		ioctl: 16,
		prlimit: 302,
		scheduling: [203, 144, 142, 314],
		priorities: [
			{ call: 141, ofUser: 2 },
			{ call: 251, ofUser: 3 },
		],
		highTable: 0x40000000,
	},
	arm64: {
		audit: 0xc00000b7,
		column: 2,
		clone: 220,
		clone3: 435,
		socket: 198,
		socketpair: 199,
		ioctl: 29,
		prlimit: 261,
		scheduling: [122, 119, 118, 274],
		priorities: [
			{ call: 140, ofUser: 2 },
			{ call: 30, ofUser: 3 },
		],
		highTable: null,
	},
};

const LOAD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const JUMP_BITS = 0x45;
const RETURN = 0x06;

const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const refuse = (errno: number) => 0x00050000 | errno;
const EPERM = refuse(1);
const ENOSYS = refuse(38);
const EAFNOSUPPORT = refuse(97);

const OFFSET_NUMBER = 0;
const OFFSET_ARCH = 4;
const OFFSET_FIRST = 16;
const OFFSET_SECOND = 24;

/** NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const CLONE_NAMESPACES = 0x7e020080;
/** UNIX, INET, INET6, NETLINK. VSOCK above all ignores network namespaces. */
const FAMILIES = [1, 2, 10, 16];
/** TIOCSTI, TIOCLINUX: typing into somebody's terminal. */
const TERMINAL_REQUESTS = [0x5412, 0x541c];

/** How a process names itself, and the first process of its box. */
const SELF = 0;
const INIT = 1;

type Instruction = [code: number, whenTrue: number, whenFalse: number, value: number];

/** The filter as the kernel reads it: instructions of eight bytes, little-endian. */
export function seccompFilter(arch: string = process.arch): Buffer {
	const machine = MACHINES[arch];
	if (machine === undefined) throw new Error(`no seccomp filter for ${arch}; x64 and arm64 have one`);
	const program: Instruction[] = [
		[LOAD, 0, 0, OFFSET_ARCH],
		...unless(JUMP_EQUAL, machine.audit, KILL),
		[LOAD, 0, 0, OFFSET_NUMBER],
		...(machine.highTable === null ? [] : when(JUMP_AT_LEAST, machine.highTable, ENOSYS)),
		...DENIED.flatMap((row) => when(JUMP_EQUAL, row[machine.column], EPERM)),
		// Its flags lie behind a pointer a filter cannot follow; libc falls back to clone.
		...when(JUMP_EQUAL, machine.clone3, ENOSYS),
		...inspect(machine.clone, OFFSET_FIRST, when(JUMP_BITS, CLONE_NAMESPACES, EPERM)),
		...inspect(machine.socket, OFFSET_FIRST, only(FAMILIES, EAFNOSUPPORT)),
		...inspect(machine.socketpair, OFFSET_FIRST, only(FAMILIES, EAFNOSUPPORT)),
		...inspect(
			machine.ioctl,
			OFFSET_SECOND,
			TERMINAL_REQUESTS.flatMap((request) => when(JUMP_EQUAL, request, EPERM)),
		),
		// A process of the same uid may set any other's limits: the init without files or processes could not even be asked.
		...inspect(machine.prlimit, OFFSET_FIRST, only([SELF], EPERM)),
		...machine.scheduling.flatMap((call) => inspect(call, OFFSET_FIRST, when(JUMP_EQUAL, INIT, EPERM))),
		...machine.priorities.flatMap(({ call, ofUser }) =>
			inspect(call, OFFSET_FIRST, [
				...when(JUMP_EQUAL, ofUser, EPERM),
				[LOAD, 0, 0, OFFSET_SECOND],
				...when(JUMP_EQUAL, INIT, EPERM),
			]),
		),
		[RETURN, 0, 0, ALLOW],
	];
	return encode(program);
}

function when(jump: number, value: number | null, verdict: number): Instruction[] {
	if (value === null) return [];
	return [
		[jump, 0, 1, value],
		[RETURN, 0, 0, verdict],
	];
}

function unless(jump: number, value: number, verdict: number): Instruction[] {
	return [
		[jump, 1, 0, value],
		[RETURN, 0, 0, verdict],
	];
}

/** Loading an argument loses the call's number, so these rules end in a verdict of their own. */
function inspect(call: number, offset: number, rules: Instruction[]): Instruction[] {
	const body: Instruction[] = [[LOAD, 0, 0, offset], ...rules, [RETURN, 0, 0, ALLOW]];
	return [[JUMP_EQUAL, 0, body.length, call], ...body];
}

function only(values: number[], verdict: number): Instruction[] {
	return [...values.flatMap((value) => when(JUMP_EQUAL, value, ALLOW)), [RETURN, 0, 0, verdict]];
}

function encode(program: Instruction[]): Buffer {
	const bytes = Buffer.alloc(program.length * 8);
	program.forEach(([code, whenTrue, whenFalse, value], index) => {
		bytes.writeUInt16LE(code, index * 8);
		bytes.writeUInt8(whenTrue, index * 8 + 2);
		bytes.writeUInt8(whenFalse, index * 8 + 3);
		bytes.writeUInt32LE(value >>> 0, index * 8 + 4);
	});
	return bytes;
}
