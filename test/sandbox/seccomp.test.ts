import { expect, test } from "vitest";
import { seccompFilter } from "../../src/sandbox/box/init/seccomp.ts";

const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const EPERM = 0x00050001;
const ENOSYS = 0x00050026;
const EAFNOSUPPORT = 0x00050061;

const X64 = 0xc000003e;
const ARM64 = 0xc00000b7;

interface Call {
	audit: number;
	number: number;
	arguments?: number[];
}

/** What the kernel would decide: a small reading of the filter's own instructions. */
function decide(filter: Buffer, { audit, number, arguments: args = [] }: Call): number {
	const data = Buffer.alloc(64);
	data.writeUInt32LE(number >>> 0, 0);
	data.writeUInt32LE(audit, 4);
	for (const [index, value] of args.entries()) data.writeUInt32LE(value >>> 0, 16 + 8 * index);
	let accumulator = 0;
	for (let at = 0; at < filter.length / 8; at += 1) {
		const code = filter.readUInt16LE(at * 8);
		const value = filter.readUInt32LE(at * 8 + 4);
		if (code === 0x06) return value;
		if (code === 0x20) accumulator = data.readUInt32LE(value);
		if (code === 0x15) at += filter.readUInt8(at * 8 + (accumulator === value ? 2 : 3));
		if (code === 0x35) at += filter.readUInt8(at * 8 + (accumulator >= value ? 2 : 3));
		if (code === 0x45) at += filter.readUInt8(at * 8 + ((accumulator & value) !== 0 ? 2 : 3));
	}
	throw new Error("the filter ran off its end");
}

const machines = [
	{
		arch: "x64",
		audit: X64,
		bpf: 321,
		read: 0,
		clone: 56,
		clone3: 435,
		socket: 41,
		ioctl: 16,
		mount: 165,
		ptrace: 101,
	},
	{
		arch: "arm64",
		audit: ARM64,
		bpf: 280,
		read: 63,
		clone: 220,
		clone3: 435,
		socket: 198,
		ioctl: 29,
		mount: 40,
		ptrace: 117,
	},
];

test.each(machines)("on $arch ordinary calls pass and dangerous ones do not", (machine) => {
	const filter = seccompFilter(machine.arch);
	const on = (number: number, ...args: number[]) =>
		decide(filter, { audit: machine.audit, number, arguments: args });
	expect(on(machine.read)).toBe(ALLOW);
	expect([on(machine.bpf), on(machine.mount), on(machine.ptrace)]).toEqual([EPERM, EPERM, EPERM]);
	expect(on(machine.clone3)).toBe(ENOSYS);
});

test.each(machines)("on $arch arguments decide over clone, socket and ioctl", (machine) => {
	const filter = seccompFilter(machine.arch);
	const on = (number: number, ...args: number[]) =>
		decide(filter, { audit: machine.audit, number, arguments: args });
	expect(on(machine.clone, 0x11)).toBe(ALLOW);
	for (const flag of [0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]) {
		expect(on(machine.clone, flag | 0x11)).toBe(EPERM);
	}
	for (let family = 0; family < 50; family += 1) {
		expect(on(machine.socket, family)).toBe([1, 2, 10, 16].includes(family) ? ALLOW : EAFNOSUPPORT);
	}
	expect([on(machine.ioctl, 0, 0x5401), on(machine.ioctl, 0, 0x5412), on(machine.ioctl, 0, 0x541c)]).toEqual([
		ALLOW,
		EPERM,
		EPERM,
	]);
});

test.each(machines)("on $arch calls under another machine's numbers are fatal", (machine) => {
	const filter = seccompFilter(machine.arch);
	for (const audit of [0x40000003, 0x40000028, machine.audit === X64 ? ARM64 : X64]) {
		expect(decide(filter, { audit, number: machine.read })).toBe(KILL);
	}
});

test("on x64 the second table of the same calls is closed", () => {
	expect(decide(seccompFilter("x64"), { audit: X64, number: 0x40000000 })).toBe(ENOSYS);
	expect(decide(seccompFilter("x64"), { audit: X64, number: 0xffffffff })).toBe(ENOSYS);
});

test("an unknown machine has no filter, and so no box", () => {
	expect(() => seccompFilter("mips")).toThrow(/no seccomp filter for mips/);
});

test.each([
	{ arch: "x64", audit: X64, calls: { setpriority: [141, 2], ioprio_set: [251, 3] } },
	{ arch: "arm64", audit: ARM64, calls: { setpriority: [140, 2], ioprio_set: [30, 3] } },
])("on $arch everybody may lower their own priority, and nobody the init's or a whole user's", (machine) => {
	const filter = seccompFilter(machine.arch);
	for (const [number, ofUser] of Object.values(machine.calls)) {
		const on = (...args: number[]) =>
			decide(filter, { audit: machine.audit, number: number!, arguments: args });
		expect([on(0, 0), on(0, 7), on(1, 0)]).toEqual([ALLOW, ALLOW, ALLOW]);
		expect([on(0, 1), on(1, 1), on(ofUser!, 0), on(ofUser!, 1000)]).toEqual([EPERM, EPERM, EPERM, EPERM]);
	}
});
