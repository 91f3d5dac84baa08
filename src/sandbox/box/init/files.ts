import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readdir } from "node:fs/promises";
import type { Socket } from "node:net";
import { dirname, join } from "node:path";
import { FROM_BOX, type ListRequest, type ReadRequest, TO_BOX, type WriteRequest } from "../wire.ts";
import { drained, finish, onFrames, send, sendAll } from "./frames.ts";

const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const WRITE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const READ_BYTES = 64 * 1024;

export async function readFile(connection: Socket, { path, maxBytes }: ReadRequest): Promise<void> {
	const file = await open(path, READ_FLAGS);
	try {
		if (!(await file.stat()).isFile()) throw coded("ENOTFILE", "not a regular file");
		let total = 0;
		for (;;) {
			const buffer = Buffer.allocUnsafe(READ_BYTES);
			const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
			if (bytesRead === 0) break;
			total += bytesRead;
			if (total > maxBytes) throw coded("EFBIG", `larger than ${maxBytes} bytes`);
			await sendAll(connection, FROM_BOX.stdout, buffer.subarray(0, bytesRead));
		}
		finish(connection, { bytes: total });
	} finally {
		await file.close();
	}
}

export async function writeFile(connection: Socket, request: WriteRequest, rest: Buffer): Promise<void> {
	const mode = request.executable ? 0o755 : 0o644;
	await mkdir(dirname(request.path), { recursive: true });
	const file = await open(request.path, WRITE_FLAGS, mode);
	try {
		if (!(await file.stat()).isFile()) throw coded("ENOTFILE", "not a regular file");
		await file.truncate(0);
		await receiveInto(file, connection, rest);
		await file.chmod(mode);
		finish(connection, {});
	} finally {
		await file.close();
	}
}

function receiveInto(file: FileHandle, connection: Socket, rest: Buffer): Promise<void> {
	return new Promise((succeed, reject) => {
		onFrames(connection, rest, async (type, payload) => {
			if (type === TO_BOX.stdinEnd) succeed();
			if (type === TO_BOX.stdin) await writeWhole(file, payload).catch(reject);
		});
		connection.on("end", () => reject(coded("EIO", "the host went away")));
		connection.on("close", () => reject(coded("EIO", "the host went away")));
	});
}

async function writeWhole(file: FileHandle, bytes: Buffer): Promise<void> {
	for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at, bytes.length - at)).bytesWritten;
}

export async function listFolder(connection: Socket, request: ListRequest): Promise<void> {
	const { path, recursive, maxEntries } = request;
	let count = 0;
	const walk = async (folder: string, prefix: string): Promise<void> => {
		const names = (await readdir(folder)).sort();
		for (const name of names) {
			if (count >= maxEntries) return;
			const stat = await lstat(join(folder, name)).catch(() => null);
			if (stat === null) continue;
			count += 1;
			const entry = { path: prefix + name, type: typeOf(stat), sizeBytes: stat.size };
			if (!send(connection, FROM_BOX.stdout, `${JSON.stringify(entry)}\n`)) await drained(connection);
			if (recursive && stat.isDirectory())
				await walk(join(folder, name), `${prefix}${name}/`).catch(unreadable);
		}
	};
	if (!(await lstat(path)).isDirectory()) throw coded("ENOTDIR", "not a folder");
	await walk(path, "");
	finish(connection, { count });
}

/** A folder the agent made unreadable is listed, without its contents. */
function unreadable(error: NodeJS.ErrnoException): void {
	if (error.code !== "EACCES" && error.code !== "ENOENT") throw error;
}

function typeOf(stat: Stats): string {
	if (stat.isFile()) return "file";
	if (stat.isDirectory()) return "directory";
	return stat.isSymbolicLink() ? "link" : "other";
}

export async function exists(path: string): Promise<boolean> {
	return await lstat(path).then(
		() => true,
		() => false,
	);
}

function coded(code: string, message: string): Error {
	return Object.assign(new Error(message), { code });
}
