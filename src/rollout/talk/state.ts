import { Readable, Writable } from "node:stream";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import type { SavedSession } from "../../agent/agent.ts";
import { RolloutError } from "../../errors.ts";
import { WORKDIR } from "../../model/task.ts";
import { pathIn, type Sandbox } from "../../sandbox/sandbox.ts";
import type { ReadyBox } from "../boxes/ready-box.ts";

const MAX_WORKDIR_BYTES = 256 * 1024 * 1024;
const MAX_STATE_BYTES = 2 * MAX_WORKDIR_BYTES;

/** What a conversation is apart from its box: what was said, and the workdir as a tar; null when that was too large. */
export interface State {
	session: SavedSession;
	workdir: Buffer | null;
}

/** Both in one piece: a history whose files are of another moment would mislead the agent. */
export async function packState({ session, workdir }: State): Promise<Buffer> {
	const said = Buffer.from(JSON.stringify(session));
	const length = Buffer.alloc(4);
	length.writeUInt32BE(said.length);
	return await promisify(gzip)(Buffer.concat([length, said, ...(workdir === null ? [] : [workdir])]), {
		level: 1,
	});
}

export async function unpackState(bytes: Buffer): Promise<State> {
	const plain = await promisify(gunzip)(bytes, { maxOutputLength: MAX_STATE_BYTES });
	const end = 4 + plain.readUInt32BE(0);
	const session = JSON.parse(plain.toString("utf8", 4, end)) as SavedSession;
	return { session, workdir: end === plain.length ? null : plain.subarray(end) };
}

/** A workdir that is a folder of this machine stays where it is. */
export async function takeState(
	ready: ReadyBox,
	sessionId: string,
	{ hasFolder }: { hasFolder: boolean },
): Promise<State> {
	const session = await ready.agent.exportSession(pathIn(ready.box, WORKDIR), sessionId);
	return { session, workdir: hasFolder ? null : await packWorkdir(ready.box) };
}

/** Puts it into a box whose agent waits. Unpacking happens in there: what an agent packed may be hostile. */
export async function giveState(ready: ReadyBox, { session, workdir }: State): Promise<void> {
	const directory = pathIn(ready.box, WORKDIR);
	if (workdir !== null) {
		// What was removed since the files were staged must not come back.
		await ready.box.exec(["find", directory, "-mindepth", "1", "-delete"]);
		await ready.box.unpack(Readable.from([workdir]), { partly: true });
	}
	await ready.agent.importSession(directory, session);
}

async function packWorkdir(box: Sandbox): Promise<Buffer | null> {
	const pieces: Buffer[] = [];
	let size = 0;
	const into = new Writable({
		write(piece: Buffer, _encoding, done) {
			size += piece.length;
			if (size > MAX_WORKDIR_BYTES)
				return done(new RolloutError("sandbox", "disk_full", "the workdir is too large to be kept"));
			pieces.push(piece);
			done();
		},
	});
	try {
		await box.pack(into, { paths: [pathIn(box, WORKDIR).slice(box.home.length + 1)], partly: true });
	} catch (error) {
		if (size > MAX_WORKDIR_BYTES) return null;
		throw error;
	}
	return Buffer.concat(pieces);
}
