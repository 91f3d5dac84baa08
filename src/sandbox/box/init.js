/**
 * The first process inside a box, run by the agent's own binary acting as Bun; the box needs no other runtime.
 * It trusts only the host: it connects out once, before any agent code exists, and does what arrives there.
 * For each order the host sends a nonce; this process connects again with it and serves one operation.
 *
 * argv[2] is JSON: { control, forwards: [{ port, to }], home, env, ownPidNamespace, boxId }.
 */

import * as ffi from "bun:ffi";
import { spawn } from "node:child_process";
import { closeSync, constants, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { lstat, mkdir, open, readdir } from "node:fs/promises";
import net from "node:net";
import { dirname, join, resolve } from "node:path";

const RESULT = 0;
const STDOUT = 1;
const STDERR = 2;
const STARTED = 4;
const FAILED = 5;
const STDIN = 1;
const STDIN_END = 2;
/** How long background children may keep the pipes of an ended command open without writing. */
const QUIET_MS = 200;
const FRAME_BYTES = 128 * 1024;
const PR_SET_DUMPABLE = 4;
const RLIMIT_NPROC = 6;
/** Processes and threads that commands cannot take: a box full of theirs can still be cleared by this process. */
const HEADROOM = 64;
const F_SETFL = 4;
const F_SETOWN = 8;
const O_ASYNC = 0x2000;
const FIONREAD = 0x541b;
const F_SETPIPE_SZ = 1031;
const PIPE_BYTES = 256 * 1024;
const O_CLOEXEC = 0x80000;

const config = JSON.parse(process.argv[2]);
const oomScore = openOomScore();
const libc = openLibc();
const hidden = hide();
limitProcesses(0, HEADROOM, HEADROOM);
const scratch = Buffer.alloc(FRAME_BYTES);
const scratchAddress = ffi.ptr(scratch);
/** Those who wait for output. */
const sleepers = new Set();
process.on("SIGIO", wake);
/** Nonce → what ends the process behind it. */
const signals = new Map();

greet().catch((error) => {
	console.error(`init: ${error.message}`);
	process.exit(70);
});

async function greet() {
	const ports = [];
	for (const { port, to } of config.forwards) ports.push(await forward(port, to));
	const control = net.connect({ path: config.control });
	control.on("error", () => process.exit(71));
	control.on("close", hostIsGone);
	control.on("connect", () => {
		control.write(`${JSON.stringify({ hello: 1, pid: process.pid, ports, hidden })}\n`);
	});
	onLines(control, (line) => obey(JSON.parse(line)));
}

/** Where the box's end is not also the end of its processes, they are ended first. */
async function hostIsGone() {
	if (!config.ownPidNamespace) await killAll();
	process.exit(0);
}

function obey(order) {
	if (order.open) serve(order.open);
	if (order.signal) signals.get(order.signal)?.(order.name);
}

/** One connection, one operation. */
function serve(nonce) {
	const connection = net.connect({ path: config.control });
	connection.on("error", () => connection.destroy());
	connection.on("connect", () => connection.write(`${JSON.stringify({ nonce })}\n`));
	onFirstFrame(connection, (request, rest) => {
		perform(nonce, connection, request, rest).catch((error) => fail(connection, error));
	});
}

async function perform(nonce, connection, request, rest) {
	if (request.op === "exec") return run(nonce, connection, request, rest);
	if (request.op === "connect") return tunnel(connection, request.port, rest);
	if (request.op === "write") return write(connection, request, rest);
	if (request.op === "read") return read(connection, request);
	if (request.op === "list") return list(connection, request);
	if (request.op === "exists") return finish(connection, { exists: await exists(request.path) });
	if (request.op === "killAll") return finish(connection, { killed: await killAll() });
	throw new Error(`unknown operation ${request.op}`);
}

// --- processes -------------------------------------------------------------------------------------------------

function run(nonce, connection, request, rest) {
	let child;
	try {
		child = start(request);
	} catch (error) {
		return finish(connection, { spawnError: error.code ?? "EIO", message: error.message });
	}
	const state = {
		exit: null,
		open: child.outputs.length,
		waiting: 0,
		ended: false,
		timer: null,
		naps: new Set(),
	};
	const end = (result) => {
		if (state.ended) return;
		state.ended = true;
		clearTimeout(state.timer);
		signals.delete(nonce);
		for (const { read } of child.outputs) closeSync(read);
		wake();
		finish(connection, result);
	};
	const settle = () => {
		clearTimeout(state.timer);
		if (state.exit === null || state.ended || state.waiting > 0) return;
		if (state.open === 0) return end(state.exit);
		state.timer = setTimeout(() => (child.outputs.some(hasMore) ? settle() : end(state.exit)), QUIET_MS);
	};
	child.process.on("error", (error) => end({ spawnError: error.code ?? "EIO", message: error.message }));
	if (child.process.pid === undefined) return;
	const { pid } = child.process;
	send(connection, STARTED, JSON.stringify({ pid }));
	signals.set(nonce, (name) => signalGroup(pid, name));
	child.process.on("exit", (code, signal) => {
		state.exit = { code, signal };
		wake();
		settle();
	});
	for (const output of child.outputs) relay(output, connection, state, settle);
	feedInput(child.process.stdin, connection, rest);
	const abandon = () => {
		if (!state.ended) signalGroup(pid, "SIGKILL");
		end({ code: null, signal: "SIGKILL" });
	};
	connection.on("end", abandon);
	connection.on("close", abandon);
}

/**
 * Reads no further while the host is behind, so that the pipe fills and the command waits. This runtime's own
 * readers take all there is into memory, which is why the pipe is read by hand, whenever the kernel's signal says
 * that there is something to read.
 */
async function relay({ type, read }, connection, state, settle) {
	while (!state.ended) {
		const count = libc.read(read, scratchAddress, FRAME_BYTES);
		if (count === 0) break;
		if (count < 0) {
			await sleepUntilOutput();
			continue;
		}
		state.waiting += 1;
		settle();
		if (!send(connection, type, scratch.subarray(0, count))) await drained(connection);
		else await new Promise(setImmediate);
		state.waiting -= 1;
		settle();
	}
	state.open -= 1;
	settle();
}

/** A look every second costs nothing and forgives a signal that got lost. */
function sleepUntilOutput() {
	return new Promise((done) => {
		const over = () => {
			clearTimeout(timer);
			sleepers.delete(over);
			done();
		};
		const timer = setTimeout(over, 1_000);
		sleepers.add(over);
	});
}

function wake() {
	for (const over of [...sleepers]) over();
}

/** Without input a command reads from /dev/null, so that tools which look for piped input find none. */
function feedInput(stdin, connection, rest) {
	if (stdin === null) return onFrames(connection, rest, () => {});
	stdin.on("error", () => {});
	onFrames(connection, rest, (type, payload) => {
		if (type === STDIN_END) stdin.end();
		if (type !== STDIN || stdin.destroyed || stdin.write(payload)) return;
		connection.pause();
		const resume = () => connection.resume();
		stdin.once("drain", resume);
		stdin.once("close", resume);
	});
}

/**
 * Outputs are real pipes, made here: the runtime would give the child sockets, which cannot be reopened as
 * /dev/stdout and make bash take itself for a remote login. Children are what the kernel should kill first when
 * memory runs out; this process is what it should spare.
 */
function start(request) {
	const pipes = [makePipe(), makePipe()];
	setOomScore("300");
	// Before it exists, so that it cannot be faster: a fork bomb once took what is kept for this process.
	limitProcesses(0, 0, HEADROOM);
	try {
		const child = spawn(request.argv[0], request.argv.slice(1), {
			cwd: request.cwd ?? config.home,
			env: { ...config.env, ...request.env },
			detached: true,
			stdio: [request.stdin ? "pipe" : "ignore", pipes[0].write, pipes[1].write],
		});
		const outputs = pipes.map(({ read }, index) => ({ type: [STDOUT, STDERR][index], read }));
		if (child.pid !== undefined) limitProcesses(child.pid, 0, 0);
		return { process: child, outputs };
	} catch (error) {
		for (const { read } of pipes) closeSync(read);
		throw error;
	} finally {
		setOomScore("0");
		limitProcesses(0, HEADROOM, HEADROOM);
		for (const { write } of pipes) closeSync(write);
	}
}

/** Whether output waits in the pipe, on a machine too busy to have delivered it. */
function hasMore({ read }) {
	const count = new Int32Array(1);
	return libc.ioctl(read, FIONREAD, ffi.ptr(count)) === 0 && count[0] > 0;
}

function makePipe() {
	const ends = new Int32Array(2);
	if (libc.pipe2(ffi.ptr(ends), O_CLOEXEC) !== 0) throw coded("EMFILE", "no descriptors left for a pipe");
	const [read, write] = ends;
	libc.fcntl(read, F_SETOWN, process.pid);
	libc.fcntl(read, F_SETFL, constants.O_NONBLOCK | O_ASYNC);
	libc.fcntl(read, F_SETPIPE_SZ, PIPE_BYTES);
	return { read, write };
}

function openOomScore() {
	try {
		return openSync("/proc/self/oom_score_adj", "r+");
	} catch {
		return null;
	}
}

function setOomScore(value) {
	if (oomScore === null) return;
	try {
		writeSync(oomScore, value, 0);
	} catch {
		// Only a preference of the kernel's; the command runs either way.
	}
}

function signalGroup(pid, name) {
	try {
		process.kill(-pid, name);
	} catch {
		// Already gone.
	}
}

/** In a pid namespace of its own, one call ends everything but pid 1 and this process, fork bombs included. */
async function killAll() {
	if (config.ownPidNamespace && process.pid < 64) {
		libc.kill(-1, 9);
		return await goneExceptUs();
	}
	const doomed = new Set();
	for (let round = 0; round < 20; round += 1) {
		const found = marked();
		if (found.length === 0) break;
		for (const pid of found) {
			doomed.add(pid);
			signalOne(pid);
		}
		await pause(10);
	}
	return doomed.size;
}

/** A killed process stays listed until it is reaped, so wait for an empty table rather than for the call. */
async function goneExceptUs() {
	for (let round = 0; round < 200; round += 1) {
		const left = pids().filter((pid) => pid !== 1 && pid !== process.pid && !isZombie(pid));
		if (left.length === 0) return true;
		libc.kill(-1, 9);
		await pause(5);
	}
	return false;
}

function marked() {
	const mark = `PADDOCK_BOX=${config.boxId}\0`;
	return pids().filter((pid) => {
		if (pid === process.pid || isZombie(pid)) return false;
		try {
			return `${readFileSync(`/proc/${pid}/environ`, "latin1")}\0`.includes(mark);
		} catch {
			return false;
		}
	});
}

function signalOne(pid) {
	try {
		process.kill(pid, "SIGKILL");
	} catch {
		// Already gone.
	}
}

function pids() {
	return readdirSync("/proc")
		.filter((name) => /^\d+$/.test(name))
		.map(Number);
}

function isZombie(pid) {
	try {
		const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
		return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) === "Z";
	} catch {
		return true;
	}
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// --- files -----------------------------------------------------------------------------------------------------

const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const WRITE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;

async function read(connection, { path, maxBytes }) {
	const file = await open(at(path), READ_FLAGS);
	try {
		if (!(await file.stat()).isFile()) throw coded("ENOTFILE", "not a regular file");
		let total = 0;
		for (;;) {
			const buffer = Buffer.allocUnsafe(65_536);
			const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
			if (bytesRead === 0) break;
			total += bytesRead;
			if (total > maxBytes) throw coded("EFBIG", `larger than ${maxBytes} bytes`);
			await sendAll(connection, STDOUT, buffer.subarray(0, bytesRead));
		}
		finish(connection, { bytes: total });
	} finally {
		await file.close();
	}
}

async function write(connection, { path, executable }, rest) {
	const target = at(path);
	await mkdir(dirname(target), { recursive: true });
	const file = await open(target, WRITE_FLAGS, executable ? 0o755 : 0o644);
	let queue = file.stat().then(async (stat) => {
		if (!stat.isFile()) throw coded("ENOTFILE", "not a regular file");
		await file.truncate(0);
	});
	const done = new Promise((succeed, reject) => {
		onFrames(connection, rest, (type, payload) => {
			connection.pause();
			queue = queue.then(async () => {
				if (type === STDIN) for (let at = 0; at < payload.length; ) at += await writeSome(file, payload, at);
				if (type === STDIN_END) await file.chmod(executable ? 0o755 : 0o644);
				if (type === STDIN_END) succeed();
				connection.resume();
			});
			queue.catch(reject);
		});
		connection.on("end", () => reject(coded("EIO", "the host went away")));
		connection.on("close", () => reject(coded("EIO", "the host went away")));
	});
	try {
		await done;
		finish(connection, {});
	} finally {
		await file.close();
	}
}

async function writeSome(file, payload, at) {
	return (await file.write(payload, at, payload.length - at)).bytesWritten;
}

async function list(connection, { path, recursive, maxEntries }) {
	const root = at(path);
	let count = 0;
	const walk = async (folder, prefix) => {
		const names = (await readdir(folder)).sort();
		for (const name of names) {
			if (count >= maxEntries) return;
			const stat = await lstat(join(folder, name)).catch(() => null);
			if (stat === null) continue;
			count += 1;
			const entry = { path: prefix + name, type: typeOf(stat), sizeBytes: stat.size };
			if (!send(connection, STDOUT, `${JSON.stringify(entry)}\n`)) await drained(connection);
			if (recursive && stat.isDirectory())
				await walk(join(folder, name), `${prefix}${name}/`).catch(unreadable);
		}
	};
	if (!(await lstat(root)).isDirectory()) throw coded("ENOTDIR", "not a folder");
	await walk(root, "");
	finish(connection, { count });
}

/** A folder the agent made unreadable is listed, without its contents. */
function unreadable(error) {
	if (error.code !== "EACCES" && error.code !== "ENOENT") throw error;
}

function typeOf(stat) {
	if (stat.isFile()) return "file";
	if (stat.isDirectory()) return "directory";
	return stat.isSymbolicLink() ? "link" : "other";
}

async function exists(path) {
	try {
		await lstat(at(path));
		return true;
	} catch {
		return false;
	}
}

const at = (path) => resolve(config.home, path);

// --- streams ---------------------------------------------------------------------------------------------------

function tunnel(connection, port, rest) {
	const inner = net.connect({ port, host: "127.0.0.1" });
	const refused = (error) => fail(connection, error);
	inner.on("error", refused);
	inner.on("connect", () => {
		inner.removeListener("error", refused);
		send(connection, RESULT, "{}");
		if (rest.length > 0) inner.write(rest);
		splice(connection, inner);
	});
}

function forward(port, to) {
	const server = net.createServer((inner) => {
		const outer = net.connect({ path: to });
		splice(inner, outer);
	});
	return new Promise((succeed, reject) => {
		server.on("error", reject);
		server.listen({ port, host: "127.0.0.1" }, () => succeed(server.address().port));
	});
}

/**
 * Either end's hanging up ends both, once what was on its way has arrived. This runtime's sockets know no
 * half-close, so there is none to pass on.
 */
function splice(left, right) {
	flow(left, right);
	flow(right, left);
}

function flow(from, to) {
	from.on("data", (chunk) => {
		if (to.write(chunk)) return;
		from.pause();
		to.once("drain", () => from.resume());
	});
	from.on("end", () => to.end());
	from.on("close", () => to.end());
	from.on("error", () => to.end());
	from.resume();
}

/** Piece by piece, each when the one before has left: this runtime is slow with much to send at once. */
async function sendAll(connection, type, bytes) {
	for (let at = 0; at < bytes.length; at += FRAME_BYTES) {
		if (!send(connection, type, bytes.subarray(at, at + FRAME_BYTES))) await drained(connection);
	}
}

/** False when the host is not keeping up. */
function send(connection, type, payload) {
	if (connection.destroyed) return true;
	const body = typeof payload === "string" ? Buffer.from(payload) : payload;
	const frame = Buffer.allocUnsafe(5 + body.length);
	frame.writeUInt8(type, 0);
	frame.writeUInt32BE(body.length, 1);
	frame.set(body, 5);
	return connection.write(frame);
}

function finish(connection, result) {
	send(connection, RESULT, JSON.stringify(result));
	leave(connection);
}

function fail(connection, error) {
	send(connection, FAILED, JSON.stringify({ code: error.code ?? "EIO", message: error.message }));
	leave(connection);
}

/** The host hangs up once it has read the last word; hanging up first, with input unread, could cost it that word. */
function leave(connection) {
	connection.removeAllListeners("data");
	connection.on("data", () => {});
	connection.on("end", () => connection.destroy());
	connection.resume();
}

function drained(connection) {
	return new Promise((succeed) => {
		const done = () => {
			connection.removeListener("drain", done);
			connection.removeListener("close", done);
			succeed();
		};
		connection.on("drain", done);
		connection.on("close", done);
	});
}

function onFrames(connection, rest, handle) {
	let pending = rest;
	const take = () => {
		while (pending.length >= 5) {
			const length = pending.readUInt32BE(1);
			if (pending.length < 5 + length) return;
			const type = pending.readUInt8(0);
			const payload = pending.subarray(5, 5 + length);
			pending = pending.subarray(5 + length);
			handle(type, payload);
		}
	};
	connection.on("data", (chunk) => {
		pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
		take();
	});
	connection.resume();
	take();
}

function onFirstFrame(connection, handle) {
	let pending = Buffer.alloc(0);
	const listen = (chunk) => {
		pending = Buffer.concat([pending, chunk]);
		if (pending.length < 5 || pending.length < 5 + pending.readUInt32BE(1)) return;
		connection.removeListener("data", listen);
		connection.pause();
		const end = 5 + pending.readUInt32BE(1);
		handle(JSON.parse(pending.subarray(5, end).toString()), pending.subarray(end));
	};
	connection.on("data", listen);
}

function onLines(connection, handle) {
	let pending = "";
	connection.on("data", (chunk) => {
		pending += chunk.toString();
		const lines = pending.split("\n");
		pending = lines.pop();
		for (const line of lines) handle(line);
	});
}

// --- hardening -------------------------------------------------------------------------------------------------

function openLibc() {
	for (const name of ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"]) {
		try {
			return ffi.dlopen(name, {
				prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" },
				prlimit: { args: ["i32", "i32", "ptr", "ptr"], returns: "i32" },
				kill: { args: ["i32", "i32"], returns: "i32" },
				read: { args: ["i32", "ptr", "u64"], returns: "i32" },
				pipe2: { args: ["ptr", "i32"], returns: "i32" },
				ioctl: { args: ["i32", "u64", "ptr"], returns: "i32" },
				fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
			}).symbols;
		} catch {
			// The next name.
		}
	}
	throw new Error("no libc found");
}

/** Set from within the box's user namespace, the limit counts the box's own processes and nobody else's. */
function limitProcesses(pid, extra, mostExtra) {
	if (!config.ownPidNamespace || config.processes === undefined) return;
	const limits = [extra, mostExtra].map((more) => BigInt(config.processes + more));
	libc.prlimit(pid, RLIMIT_NPROC, ffi.ptr(new BigUint64Array(limits)), null);
}

/** Hides this process's memory and descriptors from code that runs under the same uid. */
function hide() {
	return libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) === 0;
}

function coded(code, message) {
	return Object.assign(new Error(message), { code });
}
