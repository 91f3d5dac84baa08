import {
	closeSync,
	constants,
	fchmodSync,
	fstatSync,
	ftruncateSync,
	mkdirSync,
	openSync,
	type Stats,
	writeSync,
} from "node:fs";
import { lstat, open, readdir } from "node:fs/promises";
import type { Socket } from "node:net";
import { dirname, join, resolve } from "node:path";
import { type FileHeader, FROM_BOX, type ListRequest, type ReadRequest, TO_BOX } from "../wire.ts";
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

/** Any number of files over one connection, each written before the next begins. */
export async function writeFiles(connection: Socket, home: string, rest: Buffer): Promise<void> {
	let open: number | null = null;
	let failed = false;
	const close = () => {
		if (open !== null) closeSync(open);
		open = null;
	};
	try {
		await new Promise<void>((succeed, reject) => {
			onFrames(connection, rest, async (type, payload) => {
				if (failed) return;
				try {
					if (type === TO_BOX.stdin && open !== null) writeWhole(open, payload);
					if (type === TO_BOX.file) {
						close();
						open = create(home, JSON.parse(payload.toString()));
					}
					if (type === TO_BOX.stdinEnd) succeed();
				} catch (error) {
					failed = true;
					reject(error);
				}
			});
			connection.on("end", () => reject(coded("EIO", "the host went away")));
			connection.on("close", () => reject(coded("EIO", "the host went away")));
		});
	} finally {
		close();
	}
	finish(connection, {});
}

/** Never through a link, never into anything but a regular file; folders on the way are made. */
function create(home: string, { path, executable }: FileHeader): number {
	const target = resolve(home, path);
	const mode = executable ? 0o755 : 0o644;
	const file = openMakingFolders(target, mode);
	try {
		if (!fstatSync(file).isFile()) throw coded("ENOTFILE", "not a regular file");
		ftruncateSync(file, 0);
		fchmodSync(file, mode);
		return file;
	} catch (error) {
		closeSync(file);
		throw error;
	}
}

function openMakingFolders(target: string, mode: number): number {
	try {
		return openSync(target, WRITE_FLAGS, mode);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
		mkdirSync(dirname(target), { recursive: true });
		return openSync(target, WRITE_FLAGS, mode);
	}
}

function writeWhole(file: number, bytes: Buffer): void {
	for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
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
