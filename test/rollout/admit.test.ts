import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { type Admission, admit } from "../../src/rollout/verdict/admit.ts";

const run = promisify(execFile);
const BLOCK = 512;

/** A tar as a box packs it, of what `script` makes in the workdir of a home. */
async function packed(script: string): Promise<Buffer> {
	const home = await mkdtemp(join(tmpdir(), "paddock-admit-"));
	try {
		await run("bash", ["-ec", `mkdir workdir; cd workdir; ${script}`], { cwd: home });
		const tar = ["-C", home, "--format=gnu", "--sparse", "--sort=name", "-cf", `${home}.tar`, "--", "."];
		await run("tar", tar);
		return await readFile(`${home}.tar`);
	} finally {
		await rm(home, { recursive: true, force: true });
		await rm(`${home}.tar`, { force: true });
	}
}

interface Admitted {
	/** As tar lists them: mode, size and name. */
	names: string[];
	listing: string;
	leftOut: number;
}

/** In pieces of any size, since that is how they come. */
async function admitted(
	archive: Buffer,
	bounds: Partial<Admission> = {},
	pieceBytes = 700,
): Promise<Admitted> {
	const admission: Admission = {
		paths: ["workdir"],
		folders: ["workdir"],
		home: "/home/user",
		givenLinks: new Set(),
		maxMembers: 1000,
		maxBytes: 1_000_000,
		...bounds,
	};
	let leftOut = 0;
	const pieces = admit(inPieces(archive, pieceBytes), admission, (members) => {
		leftOut = members;
	});
	const bytes = Buffer.concat(await Array.fromAsync(pieces));
	const listing = await list(bytes);
	const names = listing.split("\n").flatMap((line) => (line === "" ? [] : [line.split(" ").at(-1)!]));
	return { names, listing, leftOut };
}

async function* inPieces(archive: Buffer, bytes: number): AsyncGenerator<Buffer> {
	for (let at = 0; at < archive.length; at += bytes) yield archive.subarray(at, at + bytes);
}

async function list(archive: Buffer): Promise<string> {
	const listing = run("tar", ["-tvf", "-"]);
	listing.child.stdin!.end(archive);
	// One that breaks off is listed as far as it goes.
	return (await listing.catch((error: { stdout: string }) => error)).stdout;
}

const FOUR_FILES = "for name in a b c d; do head -c 1000 /dev/zero > $name; done";

test("what lies in the workdir passes, byte for byte, however it is cut", async () => {
	const archive = await packed(`${FOUR_FILES}; mkdir f; echo x > f/g; ln -s a link; ln a hard`);
	const whole = await admitted(archive);
	expect(whole.names).toHaveLength(9);
	expect(whole.leftOut).toBe(1);
	for (const pieceBytes of [1, 511, 513, 100_000]) {
		expect(await admitted(archive, {}, pieceBytes)).toEqual(whole);
	}
});

test.each([0, 1, 3])(
	"of many things %i are brought over when no more may be, and the others are counted",
	async (maxMembers) => {
		const { names, leftOut } = await admitted(await packed(FOUR_FILES), { maxMembers });
		expect(names).toEqual(["./workdir/", "./workdir/a", "./workdir/b"].slice(0, maxMembers));
		// Home itself, the workdir and its four files.
		expect(leftOut).toBe(6 - maxMembers);
	},
);

test("bytes are counted as they come, in whole blocks, and what no longer fits is left out", async () => {
	const archive = await packed(`${FOUR_FILES}; echo small > e`);
	const { names, leftOut } = await admitted(archive, { maxBytes: 2 * 1024 + BLOCK });
	expect(names).toEqual(["./workdir/", "./workdir/a", "./workdir/b", "./workdir/e"]);
	expect(leftOut).toBe(3);
});

test("a file that takes no room counts as what it sends, not as what it claims", async () => {
	const archive = await packed("truncate -s 900M holes; echo x >> holes");
	const { names, listing, leftOut } = await admitted(archive, { maxBytes: 100_000 });
	expect(names).toEqual(["./workdir/", "./workdir/holes"]);
	expect(listing).toContain(String(900 * 1024 * 1024 + 2));
	expect(leftOut).toBe(1);
});

test("whatever is neither file, folder nor link, or lies elsewhere, is left out and counted", async () => {
	const script = "mkfifo pipe; echo 1 > ../beside; ln ../beside hard; ln -s ../beside soft; echo x > kept";
	const { names, leftOut } = await admitted(await packed(script));
	expect(names).toEqual(["./workdir/", "./workdir/kept"]);
	expect(leftOut).toBe(5);
});

test("privileges of a file do not come along", async () => {
	const { listing } = await admitted(await packed("echo x > tool; chmod 6755 tool; mkdir -m 1777 open"));
	expect(listing).toMatch(/^-rwxr-xr-x .*tool$/m);
	expect(listing).toMatch(/^drwxrwxrwx .*open\/$/m);
});

const header = (archive: Buffer, name: string) => archive.indexOf(`./workdir/${name}\0`);

test.each([
	[
		"a size that is no number",
		(archive: Buffer) => archive.write("zzz\0", header(archive, "a") + 124, "latin1"),
	],
	[
		"a size beyond all numbers",
		(archive: Buffer) => archive.fill(0xff, header(archive, "a") + 124, header(archive, "a") + 136),
	],
])("an archive with %s is refused", async (_, damage) => {
	const archive = await packed(FOUR_FILES);
	damage(archive);
	await expect(admitted(archive)).rejects.toThrow("no number");
});

test("an archive that claims more than it has, or is half of one, is passed on as far as it goes", async () => {
	const archive = await packed(FOUR_FILES);
	const half = await admitted(archive.subarray(0, header(archive, "c") + 100));
	expect(half).toMatchObject({ names: ["./workdir/", "./workdir/a", "./workdir/b"], leftOut: 1 });
	archive.write("77777777777\0", header(archive, "d") + 124, "latin1");
	expect((await admitted(archive)).names).toEqual([
		"./workdir/",
		"./workdir/a",
		"./workdir/b",
		"./workdir/c",
	]);
});

test("a name beyond all names is left out, and what follows it is not", async () => {
	const long = Buffer.alloc(BLOCK);
	long.write("././@LongLink\0", 0, "latin1");
	long.write("00010000000\0", 124, "latin1");
	long.write("L", 156, "latin1");
	const archive = await packed(FOUR_FILES);
	const at = header(archive, "b");
	const whole = [archive.subarray(0, at), long, Buffer.alloc(2 * 1024 * 1024, "x"), archive.subarray(at)];
	expect((await admitted(Buffer.concat(whole))).names).toEqual([
		"./workdir/",
		"./workdir/a",
		"./workdir/c",
		"./workdir/d",
	]);
});

test("a name whose beginning stands elsewhere in its header is left out", async () => {
	const archive = await packed(FOUR_FILES);
	archive.write("ustar\x0000", header(archive, "b") + 257, "latin1");
	archive.write("../tests\0", header(archive, "b") + 345, "latin1");
	expect((await admitted(archive)).names).toEqual([
		"./workdir/",
		"./workdir/a",
		"./workdir/c",
		"./workdir/d",
	]);
});
