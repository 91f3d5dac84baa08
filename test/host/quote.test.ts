import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addressOf } from "../../src/host/ssh/address.ts";
import { connectSsh } from "../../src/host/ssh/connection.ts";
import { ensureInstalled, isThere } from "../../src/host/ssh/install.ts";
import { quote } from "../../src/host/ssh/quote.ts";
import { type NamedHost, startNamedHost } from "../fixtures/named-host.ts";
import { requirePart } from "../fixtures/parts.ts";
import { missingForSshd } from "../fixtures/sshd.ts";

const run = promisify(execFile);
const missing = missingForSshd();
let big: NamedHost;
beforeAll(async () => {
	if (missing === null) big = await startNamedHost();
});
afterAll(() => big?.[Symbol.asyncDispose]());

const PIECES = [
	..." \t\n\r'\"`$(){}[]<>|&;*?~!#%=+-\\/.,:^@",
	...[
		"$(id)",
		"${",
		"HOME}",
		"`id`",
		"'\\''",
		"\\n",
		"-n",
		"--",
		"ü",
		"🐎",
		"\u202e",
		"\x1b[1m",
		"\x7f",
		"a",
		"Z9",
	],
];

/** Always the same, so that a failure can be looked at. */
function* words(count: number, pieces: readonly string[] = PIECES): Generator<string> {
	let state = 20;
	const next = (limit: number) => {
		state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
		return Math.floor((state / 2 ** 32) * limit);
	};
	for (let index = 0; index < count; index += 1)
		yield Array.from({ length: next(12) }, () => pieces[next(pieces.length)]!).join("");
}

test("whatever is in a word, a shell hands it on byte for byte, here and over there", async (context) => {
	const all = ["", ...PIECES, ...words(500)];
	const script = `printf '%s\\0' ${all.map(quote).join(" ")}`;
	const whole = all.map((word) => `${word}\0`).join("");
	expect((await run("/bin/sh", ["-c", script])).stdout).toBe(whole);
	expect(() => quote("a\0b")).toThrow(/NUL/);
	requirePart(context, "sshd", missing === null, missing ?? "");
	await using connection = await connectSsh(addressOf(big.record));
	expect((await connection.script(script)).stdout).toBe(whole);
	const channel = await connection.start(`/bin/sh -c ${quote(script)}`);
	const chunks: Buffer[] = [];
	for await (const chunk of channel) chunks.push(chunk as Buffer);
	expect(Buffer.concat(chunks).toString()).toBe(whole);
});

test("whatever is in the name of a file or folder, programs are brought there and found again", async (context) => {
	requirePart(context, "sshd", missing === null, missing ?? "");
	await using connection = await connectSsh(addressOf(big.record));
	const names = PIECES.filter((piece) => piece !== "/");
	for (const [index, name] of [...words(12, names)].entries()) {
		const content = Buffer.from(`program ${index}`);
		const cache = join(big.sshd.home, `cache ${index} ${name}`);
		const installed = await ensureInstalled(connection, cache, { name: `-${name}`, content });
		expect(installed).toMatchObject({ isNew: true });
		expect(installed.path.endsWith(`/-${name}`)).toBe(true);
		expect(await isThere(connection, installed)).toBe(true);
		expect(await ensureInstalled(connection, cache, { name: `-${name}`, content })).toMatchObject({
			isNew: false,
		});
	}
});

test("a line of any length comes whole, as far as output is kept", async (context) => {
	requirePart(context, "sshd", missing === null, missing ?? "");
	await using connection = await connectSsh(addressOf(big.record));
	const long =
		"head -c 200000 /dev/zero | tr '\\0' x; echo; echo end; head -c 70000 /dev/zero | tr '\\0' y >&2";
	const { exitCode, stdout, stderr } = await connection.script(long);
	expect({ exitCode, end: stdout.slice(-6), length: stdout.length }).toEqual({
		...{ exitCode: 0, end: "x\nend\n", length: 65_536 },
	});
	expect(stderr).toBe("y".repeat(65_536));
});
