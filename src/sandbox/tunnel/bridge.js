/**
 * The other end of a tunnel, on a machine the host shares no files with; run by the agent's own binary acting as
 * Bun. It starts the box, listens where the box's init connects to, and carries those connections over its own
 * stdin and stdout. It is also the box's guardian: when the host says so, hangs up or falls silent, the box ends.
 *
 * argv[2]: "binary", or "lines" where stdout passes only text (one base64 line per frame). The rest comes as the
 * first frame: { folder, folders, files: { name: base64 }, sockets: { door: path }, argv, env, silenceMs, patienceMs, socketOwner? }.
 */

import * as ffi from "bun:ffi";
import { spawn } from "node:child_process";
import {
	chmodSync,
	chownSync,
	closeSync,
	mkdirSync,
	readFileSync,
	readSync,
	rmSync,
	writeFileSync,
} from "node:fs";
import net from "node:net";
import { join } from "node:path";

const START = 0;
const OPEN = 1;
const DATA = 2;
const END = 3;
const CLOSE = 4;
const CREDIT = 5;
const PING = 6;
const PONG = 7;
const KILL = 8;
const WORDS = 9;
const HEADER_BYTES = 9;
const WINDOW_BYTES = 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
const F_DUPFD_CLOEXEC = 1030;
const SHUT_WR = 1;
/** How long the box may go on reading what was sent before the host hung up. */
const HANG_UP_MS = 30_000;

const libc = openLibc();
const asLines = process.argv[2] === "lines";
/** Stream number → { socket, spare, credit, owed, unsent, waiting, over, told, discarded, hungUp }. */
const streams = new Map();
let lastStream = 0;
let config = null;
let child = null;
let words = "";
let heardAt = Date.now();
let ending = false;

readFrames(process.stdin, take);
process.stdin.on("end", end);
process.stdin.on("close", end);
process.stdin.on("error", end);
process.stdout.on("error", end);
process.stdout.on("drain", () => {
	for (const id of streams.keys()) pull(id);
});
for (const name of ["SIGTERM", "SIGHUP", "SIGINT"]) process.on(name, end);
setInterval(() => {
	if (Date.now() - heardAt > (config?.silenceMs ?? 60_000)) end();
}, 1_000);

function take(type, id, payload) {
	heardAt = Date.now();
	if (type === START) return begin(JSON.parse(payload.toString()));
	if (type === PING) return send(PONG, 0, payload);
	if (type === KILL) return end();
	const stream = streams.get(id);
	if (stream === undefined) return;
	if (type === DATA) deliver(id, stream, payload);
	if (type === CREDIT) {
		stream.credit += payload.readUInt32BE(0);
		pull(id);
	}
	if (type === CLOSE) discard(stream);
	if (type === END || type === CLOSE) hangUp(stream);
}

// --- the box ---------------------------------------------------------------------------------------------------

function begin(asked) {
	config = asked;
	try {
		// Entered by the box's own user where that is not ours, but never listed or changed.
		const mode = config.socketOwner === undefined ? 0o700 : 0o711;
		mkdirSync(config.folder, { recursive: true, mode });
		writeFileSync(join(config.folder, "guardian"), `${process.pid} ${startTime()}\n`);
		for (const [name, content] of Object.entries(config.files)) {
			mkdirSync(join(config.folder, name, ".."), { recursive: true, mode: 0o700 });
			writeFileSync(join(config.folder, name), Buffer.from(content, "base64"));
		}
		for (const folder of config.folders) mkdirSync(join(config.folder, folder), { recursive: true, mode });
	} catch (error) {
		words = error.message;
		return leave();
	}
	let waiting = Object.keys(config.sockets).length;
	for (const [door, path] of Object.entries(config.sockets)) {
		const server = net.createServer({ allowHalfOpen: true }, (socket) => admit(door, socket));
		server.on("error", (error) => {
			words = error.message;
			end();
		});
		server.listen({ path }, () => {
			chmodSync(path, 0o600);
			if (config.socketOwner !== undefined) chownSync(path, config.socketOwner, config.socketOwner);
			waiting -= 1;
			if (waiting === 0) startBox();
		});
	}
}

function startBox() {
	if (ending) return leave();
	child = spawn(config.argv[0], config.argv.slice(1), {
		cwd: "/",
		env: config.env,
		detached: true,
		stdio: ["ignore", "pipe", "pipe"],
	});
	const keep = (chunk) => {
		words = (words + chunk).slice(-4096);
	};
	child.stdout.on("data", keep);
	child.stderr.on("data", keep);
	child.on("error", (error) => {
		words = error.message;
		leave();
	});
	child.on("exit", leave);
}

/** With walls, the box's first process takes everything along; without, its init clears up when we hang up. */
function end() {
	if (ending) return;
	ending = true;
	if (child === null) return leave();
	for (const { socket } of streams.values()) socket.destroy();
	setTimeout(() => killGroup(), config.patienceMs);
	setTimeout(leave, config.patienceMs + 5_000);
}

function killGroup() {
	try {
		process.kill(-child.pid, "SIGKILL");
	} catch {
		// Already gone.
	}
}

let left = false;
function leave() {
	if (left) return;
	left = true;
	ending = true;
	if (child !== null) killGroup();
	if (config !== null) rmSync(config.folder, { recursive: true, force: true });
	const done = () => process.exit(0);
	setTimeout(done, 2_000);
	// The last frame is out before the end is.
	writeOut(WORDS, 0, Buffer.from(words), done);
}

/** Tells this process from a later one of the same number. */
function startTime() {
	const stat = readFileSync("/proc/self/stat", "latin1");
	return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
}

// --- streams ---------------------------------------------------------------------------------------------------

function admit(door, socket) {
	lastStream += 1;
	const id = lastStream;
	const spare = libc.fcntl(socket._handle.fd, F_DUPFD_CLOEXEC, 0);
	const stream = { socket, spare, credit: WINDOW_BYTES, owed: 0, unsent: 0, waiting: null };
	streams.set(id, stream);
	send(OPEN, id, Buffer.from(door));
	socket.on("data", (chunk) => {
		if (stream.discarded) return;
		socket.pause();
		stream.waiting = stream.waiting === null ? chunk : Buffer.concat([stream.waiting, chunk]);
		pull(id);
	});
	socket.on("drain", () => settle(id, stream));
	socket.on("end", () => finish(id, END));
	socket.on("error", () => {});
	socket.on("close", () => finish(id, CLOSE));
	socket.resume();
}

/** What the host has room for goes out; the socket is read again when nothing is left over. */
function pull(id) {
	const stream = streams.get(id);
	if (stream === undefined) return;
	while (stream.waiting !== null && stream.credit > 0 && !process.stdout.writableNeedDrain) {
		const part = stream.waiting.subarray(0, Math.min(stream.credit, CHUNK_BYTES));
		stream.waiting = part.length === stream.waiting.length ? null : stream.waiting.subarray(part.length);
		stream.credit -= part.length;
		send(DATA, id, part);
	}
	if (stream.waiting !== null) return;
	if (stream.over !== undefined) return conclude(id, stream);
	stream.socket.resume();
}

/** The end of a stream is told after all of its data. */
function finish(id, type) {
	const stream = streams.get(id);
	if (stream === undefined) return;
	readRest(stream);
	if (stream.over !== CLOSE) stream.over = type;
	pull(id);
}

function conclude(id, stream) {
	if (stream.told === stream.over) return;
	stream.told = stream.over;
	send(stream.over, id, Buffer.alloc(0));
	if (stream.over === CLOSE) streams.delete(id);
}

/**
 * When the other end closes a socket that is paused, this runtime drops what it has not read yet; through a second
 * descriptor it can still be had. At most what the kernel holds for one socket.
 */
function readRest(stream) {
	if (stream.spare < 0) return;
	const rest = [];
	try {
		for (;;) {
			const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
			const length = readSync(stream.spare, buffer, 0, buffer.length, null);
			if (length === 0) break;
			rest.push(buffer.subarray(0, length));
		}
	} catch {
		// Nothing is left, or we hung up first.
	}
	closeSync(stream.spare);
	stream.spare = -1;
	if (rest.length === 0 || stream.discarded) return;
	stream.waiting = Buffer.concat(stream.waiting === null ? rest : [stream.waiting, ...rest]);
}

/** Nobody listens any more; what the box still says is read and dropped, so that its end is noticed. */
function discard(stream) {
	stream.discarded = true;
	stream.waiting = null;
	stream.socket.resume();
}

function deliver(id, stream, payload) {
	stream.owed += payload.length;
	if (stream.socket.destroyed) return settle(id, stream);
	stream.unsent += 1;
	const keepsUp = stream.socket.write(payload, () => {
		stream.unsent -= 1;
		if (stream.hungUp) shutDown(stream);
	});
	if (keepsUp) settle(id, stream);
}

function hangUp(stream) {
	if (stream.hungUp) return;
	stream.hungUp = true;
	shutDown(stream);
	setTimeout(() => stream.socket.destroy(), HANG_UP_MS).unref();
}

/** Only our half, once all is sent: the init may be reading slowly, and a full close would cost it the rest. */
function shutDown(stream) {
	if (stream.unsent === 0 && stream.spare >= 0) libc.shutdown(stream.spare, SHUT_WR);
}

/** The box has taken what it was sent: the host may send as much again. */
function settle(id, stream) {
	if (stream.owed === 0) return;
	const credit = Buffer.alloc(4);
	credit.writeUInt32BE(stream.owed, 0);
	stream.owed = 0;
	send(CREDIT, id, credit);
}

function send(type, id, payload) {
	if (!left) writeOut(type, id, payload);
}

function writeOut(type, id, payload, done) {
	const frame = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
	frame.writeUInt8(type, 0);
	frame.writeUInt32BE(id, 1);
	frame.writeUInt32BE(payload.length, 5);
	payload.copy(frame, HEADER_BYTES);
	process.stdout.write(asLines ? `${frame.toString("base64")}\n` : frame, done);
}

function readFrames(input, handle) {
	let pending = Buffer.alloc(0);
	input.on("data", (chunk) => {
		pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
		while (pending.length >= HEADER_BYTES) {
			const end = HEADER_BYTES + pending.readUInt32BE(5);
			if (pending.length < end) return;
			const frame = pending.subarray(0, end);
			pending = pending.subarray(end);
			handle(frame.readUInt8(0), frame.readUInt32BE(1), frame.subarray(HEADER_BYTES));
		}
	});
}

function openLibc() {
	for (const name of ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"]) {
		try {
			return ffi.dlopen(name, {
				fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
				shutdown: { args: ["i32", "i32"], returns: "i32" },
			}).symbols;
		} catch {
			// The next name.
		}
	}
	throw new Error("no libc found");
}
