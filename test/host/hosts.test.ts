import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { Backends } from "../../src/backends.ts";
import { main } from "../../src/cli/cli.ts";
import { Hosts } from "../../src/host/hosts.ts";
import { addressOf } from "../../src/host/ssh/address.ts";
import { connectSsh } from "../../src/host/ssh/connection.ts";
import { digestOf, ensureInstalled } from "../../src/host/ssh/install.ts";
import { quote } from "../../src/host/ssh/quote.ts";
import type { Host } from "../../src/model/host.ts";
import { BoxSpec } from "../../src/model/task.ts";
import { RecordedShell } from "../cli/shell.ts";
import { requirePart } from "../fixtures/parts.ts";
import { missingForSshd, startSshd, type TestSshd } from "../fixtures/sshd.ts";

const run = promisify(execFile);
const missing = missingForSshd();
const here = (context: TestContext) => requirePart(context, "sshd", missing === null, missing ?? "");

let sshd: TestSshd;
let home = "";
beforeAll(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-hosts-"));
	if (missing === null) sshd = await startSshd();
});
afterAll(async () => {
	if (missing === null) await sshd[Symbol.asyncDispose]();
	await rm(home, { recursive: true });
});

function big(): Host {
	return {
		name: "big",
		address: sshd.env.PADDOCK_SSH_HOST!,
		keyFile: sshd.env.PADDOCK_SSH_KEY_FILE!,
		fingerprint: sshd.fingerprint,
		knownHostsFile: null,
		allowPlain: false,
		agent: null,
	};
}

const connect = () => connectSsh(addressOf(big()));

async function ask(...argv: string[]): Promise<{ code: number; said: string }> {
	const shell = new RecordedShell({ env: { PADDOCK_HOME: home }, directory: home });
	const code = await main(["host", ...argv], shell);
	return { code, said: shell.stdout.text + shell.stderr.text };
}

/** A package as npm publishes it, whose agent is a script. */
async function archiveOf(version: string): Promise<{ path: string; sha256: string }> {
	const folder = await mkdtemp(join(home, "package-"));
	await mkdir(join(folder, "package/bin"), { recursive: true });
	await writeFile(join(folder, "package/bin/opencode"), `#!/bin/sh\necho ${version}$MARK\n`, { mode: 0o755 });
	const path = join(folder, "agent.tgz");
	await run("tar", ["-czf", path, "-C", folder, "package"]);
	return { path, sha256: await digestOf(path) };
}

test("of eight that install at once one sends, the others wait, and all get what was sent", async (context) => {
	here(context);
	const content = randomBytes(3_000_000);
	const cache = join(sshd.home, ".cache/paddock");
	await using stack = new AsyncDisposableStack();
	const connections = await Promise.all(Array.from({ length: 8 }, async () => stack.use(await connect())));
	const percents: number[] = [];
	const onProgress = (percent: number) => percents.push(percent);
	const installed = await Promise.all(
		connections.map((each) => ensureInstalled(each, cache, { name: "program", content, onProgress })),
	);
	expect(installed.filter(({ isNew }) => isNew)).toHaveLength(1);
	for (const { path } of installed) expect((await readFile(path)).equals(content)).toBe(true);
	expect(await readdir(join(cache, await digestOf(content)))).toEqual(["program"]);
	expect(percents.at(-1)).toBe(100);
	expect(percents).toEqual([...new Set(percents)].toSorted((a, b) => a - b));
});

test("what one left that died in the middle is nobody's, and what was changed there is sent anew", async (context) => {
	here(context);
	await using connection = await connect();
	const cache = join(sshd.home, ".cache/paddock");
	const content = randomBytes(100_000);
	const folder = join(cache, await digestOf(content));
	await connection.script(
		`mkdir -p ${quote(folder)}; touch ${quote(`${folder}.lock`)}; echo half > ${quote(folder)}/program.part`,
	);
	expect(await ensureInstalled(connection, cache, { name: "program", content })).toMatchObject({
		isNew: true,
	});
	await writeFile(join(folder, "program"), "x".repeat(100_000));
	expect(await ensureInstalled(connection, cache, { name: "program", content })).toMatchObject({
		isNew: true,
	});
	expect((await readFile(join(folder, "program"))).equals(content)).toBe(true);
	expect(await readdir(folder)).toEqual(["program"]);
});

test("a machine gets a name, is looked over, and its agent comes from a checked archive", async (context) => {
	here(context);
	const { address, keyFile, fingerprint } = big();
	const where = [address, "--key-file", keyFile!, "--fingerprint", fingerprint!];
	expect(await ask("add", "big", ...where)).toMatchObject({ code: 0 });
	expect(await ask("add", "big", ...where)).toMatchObject({
		code: 2,
		said: expect.stringContaining("already"),
	});
	expect(await ask("add", "local", ...where)).toMatchObject({ code: 2 });
	expect(await ask("check", "big")).toMatchObject({
		code: 1,
		said: expect.stringContaining("paddock host install big"),
	});

	const archive = await archiveOf("1.2.3");
	const install = ["install", "big", "--archive", archive.path];
	expect(await ask(...install)).toMatchObject({ code: 2, said: expect.stringContaining("--sha256") });
	const fresh = await ask(...install, "--sha256", archive.sha256);
	expect(fresh).toMatchObject({ code: 0, said: expect.stringMatching(/^Installed OpenCode 1\.2\.3 on big/) });
	expect((await ask(...install, "--sha256", archive.sha256)).said).toMatch(
		/^Already there: OpenCode 1\.2\.3/,
	);
	expect(await ask("check", "big", "--wrap", "/usr/bin/env MARK=-wrapped")).toMatchObject({
		code: 0,
		said: expect.stringContaining("OpenCode 1.2.3-wrapped"),
	});
	expect((await ask("list")).said).toMatch(/local +this machine[\s\S]*big +\S+ +1\.2\.3/);
	expect(await ask("remove", "big")).toMatchObject({ code: 0 });
	expect(await ask("check", "big")).toMatchObject({ code: 2, said: expect.stringContaining("no host big") });
});

test.for(["cut short", "changed"])(
	"an archive that was %s is refused, and nothing is installed",
	async (what, context) => {
		here(context);
		const hosts = new Hosts(home);
		await hosts.add(big());
		const { path, sha256 } = await archiveOf(`9.9.${what.length}`);
		const bytes = await readFile(path);
		if (what === "cut short") await truncate(path, bytes.length - 20);
		else await writeFile(path, bytes.with(bytes.length >> 1, bytes[bytes.length >> 1]! ^ 1));
		const before = await readdir(join(sshd.home, ".cache/paddock"));
		const { code, said } = await ask("install", "big", "--archive", path, "--sha256", sha256);
		expect({ code, said }).toMatchObject({ code: 2, said: expect.stringContaining("cut short, or changed") });
		expect(await readdir(join(sshd.home, ".cache/paddock"))).toEqual(before);
		expect((await hosts.find("big")).agent).toBeNull();
		await hosts.remove("big");
	},
);

test("a machine that cannot be reached, or shows another key, is a sentence and no stack", async (context) => {
	here(context);
	const hosts = new Hosts(home);
	await hosts.add({ ...big(), name: "away", address: `${sshd.user}@127.0.0.1:1` });
	await hosts.add({ ...big(), name: "other", fingerprint: `SHA256:${"A".repeat(43)}` });
	for (const [name, words] of [
		["away", /ECONNREFUSED/],
		["other", /somebody may be in between/],
	] as const) {
		for (const verb of ["check", "install"]) {
			const { code, said } = await ask(verb, name);
			expect(code).toBe(1);
			expect(said).toMatch(words);
			expect(said).not.toMatch(/\n\s+at /);
			expect(said.trim().split("\n")).toHaveLength(1);
		}
		await hosts.remove(name);
	}
});

test("boxes are placed on a named machine, from the agent that was installed there, as long as it is that", async (context) => {
	here(context);
	const hosts = new Hosts(home);
	await hosts.add(big());
	expect(await ask("install", "big")).toMatchObject({
		code: 0,
		said: expect.stringMatching(/OpenCode \d+\.\d+/),
	});
	const { agent } = await hosts.find("big");
	{
		await using backends = new Backends({ env: {}, home }, () => {});
		const backend = await backends.get("ssh:big");
		const spec = BoxSpec.parse({ diskMb: 16 });
		await using box = await backend.open({ spec, onGateway: (connection) => connection.destroy() });
		expect(box.facts).toMatchObject({ isolation: "bubblewrap", host: "127.0.0.1" });
		expect((await box.exec("echo here")).stdout).toBe("here\n");
	}
	await hosts.change("big", { agent: { ...agent!, sha256: "0".repeat(64) } });
	await using backends = new Backends({ env: {}, home }, () => {});
	expect(await backends.availability("ssh:big")).toMatchObject({ ok: false });
	expect(JSON.stringify(await backends.availability("ssh:big"))).toContain("paddock host install again");
	expect(JSON.stringify(await backends.availability("ssh:nobody"))).toContain("no host nobody");
	await hosts.remove("big");
});

test("whatever is in a word, a shell hands it on byte for byte", async () => {
	const words = [
		"",
		"a b",
		"it's",
		"$(id)",
		"`id`",
		"a\nb",
		"-n",
		"ünïcode 🐎",
		"\\",
		'"',
		"*",
		"~",
		"a;b&&c|d>e",
	];
	for (const word of words) {
		const { stdout } = await run("/bin/sh", ["-c", `printf %s ${quote(word)}`]);
		expect(stdout).toBe(word);
	}
	expect(() => quote("a\0b")).toThrow(/NUL/);
});
