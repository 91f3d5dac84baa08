const BLOCK = 512;
/** Nobody can name what lies deeper, or under a longer path, so nothing is lost without it. */
const MAX_PATH_BYTES = 3_900;
const MAX_DEPTH = 256;
const MAX_LONG_NAME_BYTES = 1024 * 1024;
/** GNU's sparse files: maps that do not fit the header follow it. */
const MAX_SPARSE_BLOCKS = 10_000;

/** Admitted nowhere. */
const NO_PATH = "/";

/** What may come out of an agent's box into the verifier's. */
export interface Admission {
	/** Relative to home; what lies below them is admitted too, and nothing else. */
	paths: readonly string[];
	/** Those that must be folders. */
	folders: readonly string[];
	/** Home as the verifier's box calls it. */
	home: string;
	/** Links the agent was given, place and target: they may lead where they led before. */
	givenLinks: ReadonlySet<string>;
	maxMembers: number;
	maxBytes: number;
}

/**
 * Lets only those members of a tar pass that are expected: files, folders and links at or below the admitted paths, without
 * privileges. The rest is left out, whoever made it, and counted: what an agent put beside its work must neither reach the verifier
 * nor keep it from its verdict. Bytes pass as they come; nothing is unpacked here. An archive that ends too soon is passed on as far as
 * it goes.
 */
export async function* admit(
	archive: AsyncIterable<Buffer>,
	admission: Admission,
	onLeftOut: (members: number) => void,
): AsyncGenerator<Buffer> {
	try {
		yield* admitWhole(archive, admission, onLeftOut);
	} catch (error) {
		if (!(error instanceof BrokeOff)) throw error;
		onLeftOut(1);
	}
}

async function* admitWhole(
	archive: AsyncIterable<Buffer>,
	admission: Admission,
	onLeftOut: (members: number) => void,
): AsyncGenerator<Buffer> {
	const input = new Blocks(archive);
	let [members, bytes, leftOut] = [0, 0, 0];
	for (let member = await readMember(input); member !== null; member = await readMember(input)) {
		const dataBytes = Math.ceil(member.sizeBytes / BLOCK) * BLOCK;
		const fits = members < admission.maxMembers && bytes + dataBytes <= admission.maxBytes;
		if (!fits || !isExpected(member, admission)) {
			leftOut += 1;
			for await (const _ of input.pass(dataBytes));
			continue;
		}
		members += 1;
		bytes += dataBytes;
		yield withoutPrivileges(member);
		yield* input.pass(dataBytes);
	}
	if (leftOut > 0) onLeftOut(leftOut);
	yield Buffer.alloc(2 * BLOCK);
	await input.drain();
}

/** A header with all that belongs to it: long names before, maps of sparse files after. */
interface Member {
	type: string;
	path: string;
	linkTarget: string;
	sizeBytes: number;
	longNames: Buffer[];
	header: Buffer;
	maps: Buffer[];
}

async function readMember(input: Blocks): Promise<Member | null> {
	const longNames: Buffer[] = [];
	let [path, linkTarget]: [string | null, string | null] = [null, null];
	for (;;) {
		const header = await input.take(BLOCK);
		if (header.every((byte) => byte === 0)) return null;
		const type = String.fromCharCode(header[156]!);
		const sizeBytes = sizeIn(header);
		if (type === "L" || type === "K") {
			const dataBytes = Math.ceil(sizeBytes / BLOCK) * BLOCK;
			if (sizeBytes > MAX_LONG_NAME_BYTES) {
				for await (const _ of input.pass(dataBytes));
				if (type === "L") path = NO_PATH;
				else linkTarget = NO_PATH;
				continue;
			}
			const data = await input.take(dataBytes);
			longNames.push(header, data);
			if (type === "L") path = textIn(data, 0, sizeBytes);
			else linkTarget = textIn(data, 0, sizeBytes);
			continue;
		}
		const maps = type === "S" ? await readMaps(input, header) : [];
		// tar, as it is asked here, writes long names otherwise: whoever wrote this one means another place than it says.
		if (isPosix(header) && textIn(header, 345, 155) !== "") path = NO_PATH;
		path ??= textIn(header, 0, 100);
		linkTarget ??= textIn(header, 157, 100);
		return { type, path, linkTarget, sizeBytes, longNames, header, maps };
	}
}

function isPosix(header: Buffer): boolean {
	return textIn(header, 257, 8) === "ustar";
}

async function readMaps(input: Blocks, header: Buffer): Promise<Buffer[]> {
	const maps: Buffer[] = [];
	for (let more = header[482] === 1; more; ) {
		const map = await input.take(BLOCK);
		if (maps.length === MAX_SPARSE_BLOCKS) throw new Error("a map in the archive has no end");
		maps.push(map);
		more = map[504] === 1;
	}
	return maps;
}

/** Regular, sparse, folder, symbolic link, hard link: no devices, pipes or anything newer. */
const TYPES = new Set(["0", "\0", "S", "5", "2", "1"]);

function isExpected({ type, path, linkTarget }: Member, admission: Admission): boolean {
	if (!TYPES.has(type)) return false;
	const { paths, folders, givenLinks } = admission;
	const place = toPlace(path);
	if (place === null || !isBelow(place, paths)) return false;
	if (folders.includes(place)) return type === "5";
	if (type === "2")
		return givenLinks.has(toGivenLink(place, linkTarget)) || leadsToOpen(place, linkTarget, admission);
	if (type !== "1") return true;
	const target = toPlace(linkTarget);
	return target !== null && isBelow(target, paths);
}

export function toGivenLink(place: string, target: string): string {
	return `${place}\0${target}`;
}

/** Where things lie, or come to lie, that the verifier has and the agent must not: its tests, what it writes, what it has open. */
const CLOSED = new Set(["home", "root", "proc", "dev", "sys", "run", "tmp", "var"]);

/**
 * The verifier reads an answer and follows the link that lies in its place: to the tests, it finds the expected answer; to its own open
 * files, it compares them with themselves. Going up is allowed only at the start of a target: behind another link, up leads elsewhere.
 */
function leadsToOpen(place: string, target: string, { paths, home }: Admission): boolean {
	const steps = target.split("/").filter((step) => step !== "" && step !== ".");
	const ups = steps.findIndex((step) => step !== "..");
	const [climbs, rest] = ups === -1 ? [steps.length, []] : [ups, steps.slice(ups)];
	if (rest.includes("..")) return false;
	if (!target.startsWith("/")) {
		const folder = place.split("/").slice(0, -1);
		return (
			climbs <= folder.length &&
			isBelow([...folder.slice(0, folder.length - climbs), ...rest].join("/"), paths)
		);
	}
	if (climbs > 0) return false;
	const whole = `/${rest.join("/")}`;
	if (
		whole === "/dev/null" ||
		isBelow(
			whole,
			paths.map((path) => `${home}/${path}`),
		)
	)
		return true;
	return rest.length > 0 && !CLOSED.has(rest[0]!) && !`${home}/`.startsWith(`${whole}/`);
}

/** As tar spells it ("./workdir/x"), to plain; null for what leads elsewhere. */
function toPlace(path: string): string | null {
	if (Buffer.byteLength(path, "latin1") > MAX_PATH_BYTES || path.startsWith("/")) return null;
	const steps = path.split("/").filter((step) => step !== "" && step !== ".");
	if (steps.length === 0 || steps.length > MAX_DEPTH || steps.includes("..")) return null;
	return steps.join("/");
}

function isBelow(place: string, paths: readonly string[]): boolean {
	return paths.some((path) => place === path || place.startsWith(`${path}/`));
}

/** Bytes as they are: names need not be text. */
function textIn(bytes: Buffer, at: number, length: number): string {
	const field = bytes.subarray(at, at + length);
	const end = field.indexOf(0);
	return field.subarray(0, end === -1 ? length : end).toString("latin1");
}

/** Octal, or for what is too large for that, a binary number marked by its first bit. */
function sizeIn(header: Buffer): number {
	const field = header.subarray(124, 136);
	const size =
		(field[0]! & 0x80) === 0
			? Number.parseInt(field.toString("latin1").replace(/[\0 ]+$/, "") || "0", 8)
			: Number(field.readBigUInt64BE(4));
	if (!Number.isSafeInteger(size) || size < 0) throw new Error("a size in the archive is no number");
	return size;
}

/** Set-uid, set-gid and sticky are taken off; the header's checksum is made anew. */
function withoutPrivileges({ longNames, header, maps }: Member): Buffer {
	const plain = Buffer.from(header);
	const mode = Number.parseInt(textIn(header, 100, 8), 8) & 0o777;
	plain.write(`${mode.toString(8).padStart(7, "0")}\0`, 100, "latin1");
	plain.fill(" ", 148, 156);
	const sum = plain.reduce((total, byte) => total + byte, 0);
	plain.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
	return Buffer.concat([...longNames, plain, ...maps]);
}

class BrokeOff extends Error {}

/** Reads exactly so many bytes at a time from chunks of any size. */
class Blocks {
	readonly #chunks: AsyncIterator<Buffer>;
	#rest: Buffer = Buffer.alloc(0);

	constructor(archive: AsyncIterable<Buffer>) {
		this.#chunks = archive[Symbol.asyncIterator]();
	}

	async take(bytes: number): Promise<Buffer> {
		const parts = [this.#rest];
		let have = this.#rest.length;
		while (have < bytes) {
			const chunk = await this.#next();
			parts.push(chunk);
			have += chunk.length;
		}
		const all = parts.length === 1 ? this.#rest : Buffer.concat(parts);
		this.#rest = all.subarray(bytes);
		return all.subarray(0, bytes);
	}

	/** The next so many bytes, chunk by chunk. */
	async *pass(bytes: number): AsyncGenerator<Buffer> {
		for (let left = bytes; left > 0; ) {
			if (this.#rest.length === 0) this.#rest = await this.#next();
			const piece = this.#rest.subarray(0, left);
			this.#rest = this.#rest.subarray(piece.length);
			left -= piece.length;
			yield piece;
		}
	}

	/** What follows an archive's end is padding. */
	async drain(): Promise<void> {
		while (!(await this.#chunks.next()).done);
	}

	async #next(): Promise<Buffer> {
		const { done, value } = await this.#chunks.next();
		if (done) throw new BrokeOff("the archive broke off");
		return value;
	}
}
