import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { truncateSync } from "node:fs";
import {
	chmod,
	mkdir,
	mkdtemp,
	readdir,
	readFile,
	rm,
	stat,
	symlink,
	truncate,
	writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { Backends } from "../../src/backends.ts";
import { findAgentBinary } from "../../src/host/binary.ts";
import { digestOf } from "../../src/host/digest.ts";
import { Hosts } from "../../src/host/hosts.ts";
import { addressOf } from "../../src/host/ssh/address.ts";
import { connectSsh } from "../../src/host/ssh/connection.ts";
import { ensureInstalled } from "../../src/host/ssh/install.ts";
import { quote } from "../../src/host/ssh/quote.ts";
import type { Host } from "../../src/model/host.ts";
import { BoxSpec } from "../../src/model/task.ts";
import { type NamedHost, startNamedHost } from "../fixtures/named-host.ts";
import { requirePart } from "../fixtures/parts.ts";
import { missingForSshd, type TestSshd } from "../fixtures/sshd.ts";

const run = promisify(execFile);
const missing = missingForSshd();
const EXAMPLE: Omit<Host, "name" | "agent"> = {
	address: "ada@big.example",
	keyFile: null,
	fingerprint: null,
	knownHostsFile: null,
	allowPlain: false,
};
const here = (context: TestContext) => requirePart(context, "sshd", missing === null, missing ?? "");

let machine: NamedHost;
let sshd: TestSshd;
let home = "";
let ask: NamedHost["ask"];
let archiveOf: NamedHost["archiveOf"];
beforeAll(async () => {
	if (missing !== null) return;
	machine = await startNamedHost();
	({ sshd, home, ask, archiveOf } = machine);
});
afterAll(() => machine?.[Symbol.asyncDispose]());

const big = (): Host => machine.record;
const connect = () => connectSsh(addressOf(big()));

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

test("what arrives otherwise than it was sent, or is given up on the way, leaves nothing behind", async (context) => {
	here(context);
	await using connection = await connect();
	const cache = join(sshd.home, ".cache/paddock");
	const content = join(home, "sent");
	const giveUp = new AbortController();
	const meanwhile = [() => truncateSync(content, 3_000_000), () => giveUp.abort(new Error("enough"))];
	for (const happens of meanwhile) {
		await writeFile(content, randomBytes(6_000_000));
		const folder = join(cache, await digestOf(content));
		const onProgress = (percent: number) => percent === 10 && happens();
		const program = { name: "program", content, onProgress };
		const sending = ensureInstalled(connection, cache, program, { signal: giveUp.signal });
		await expect(sending).rejects.toThrow(/what arrived is not what was sent|enough/);
		expect(await readdir(folder)).toEqual([]);
	}
});

test("of what a machine complains about, the last kilobyte is told", async (context) => {
	here(context);
	await using connection = await connect();
	const cache = `/${"x".repeat(3000)}`;
	const installing = ensureInstalled(connection, cache, { name: "p", content: randomBytes(9) });
	const failure = await installing.then(String, String);
	expect(failure).toContain("File name too long");
	expect(failure.length).toBeLessThan(1200);
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
	expect(await ask("check", "big")).toMatchObject({
		code: 0,
		said: expect.stringContaining("OpenCode 1.2.3"),
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

test("the cache is where that machine's own environment has it, and nobody else's", async (context) => {
	here(context);
	await using stack = new AsyncDisposableStack();
	const caches = await mkdtemp(join(tmpdir(), "paddock-caches-"));
	stack.defer(() => rm(caches, { recursive: true }));
	await chmod(caches, 0o777);
	await using other = await startNamedHost({ env: { XDG_CACHE_HOME: `${caches}/` } });
	const hosts = new Hosts(other.home);
	await hosts.add(other.record);
	const { path, sha256 } = await other.archiveOf("1.2.3");
	const install = () => other.ask("install", "big", "--archive", path, "--sha256", sha256);
	await mkdir(join(caches, "elsewhere"));
	await symlink(join(caches, "elsewhere"), join(caches, "paddock"));
	expect(await install()).toMatchObject({ code: 1, said: expect.stringContaining("is not its own") });
	await rm(join(caches, "paddock"));
	await mkdir(join(caches, "paddock"), { mode: 0o777 });
	expect(await install()).toMatchObject({ code: 1, said: expect.stringContaining("is not its own") });
	await rm(join(caches, "paddock"), { recursive: true });
	expect(await install()).toMatchObject({ code: 0 });
	const agent = (await hosts.find("big")).agent!.path;
	expect(agent).toBe(join(caches, "paddock", await digestOf(agent), "agent"));
	expect((await stat(join(caches, "paddock"))).mode & 0o777).toBe(0o700);
	expect(await readdir(other.sshd.home)).not.toContain(".cache");
});

test("a running worker follows what becomes of a machine, and what runs there stays as it began", async (context) => {
	here(context);
	const hosts = new Hosts(home);
	await hosts.add(big());
	await using backends = new Backends({ env: {}, home }, () => {});
	const open = async () =>
		(await backends.get("ssh:big")).open({
			spec: BoxSpec.parse({ diskMb: 16 }),
			onGateway: (connection) => connection.destroy(),
		});
	await using before = await open();
	const other = await anotherBuild();
	expect(await ask("install", "big", "--archive", other.path, "--sha256", other.sha256)).toMatchObject({
		code: 0,
	});
	await using after = await open();
	const digests = await Promise.all([before, after].map((box) => box.exec(`sha256sum < ${box.agentBinary}`)));
	expect(digests.map(({ stdout }) => stdout.slice(0, 64))).toEqual([
		await digestOf(findAgentBinary()),
		(await hosts.find("big")).agent!.sha256,
	]);
	expect((await ask("check", "big")).code).toBe(0);
	await hosts.remove("big");
	await expect(open()).rejects.toMatchObject({ code: "unknown_host" });
	for (const box of [before, after]) expect((await box.exec("echo on")).stdout).toBe("on\n");
});

/** The agent itself but for a byte that no system reads. */
async function anotherBuild(): Promise<{ path: string; sha256: string }> {
	const folder = await mkdtemp(join(home, "package-"));
	await mkdir(join(folder, "package/bin"), { recursive: true });
	const bytes = await readFile(findAgentBinary());
	bytes[15] = 1;
	await writeFile(join(folder, "package/bin/opencode"), bytes, { mode: 0o755 });
	const path = join(folder, "agent.tgz");
	await run("tar", ["-I", "gzip -1", "-cf", path, "-C", folder, "package"]);
	return { path, sha256: await digestOf(path) };
}

test("of ten machines that are added at once none is lost, and of ten of one name one is added", async () => {
	await using stack = new AsyncDisposableStack();
	const folder = await mkdtemp(join(tmpdir(), "paddock-hosts-"));
	stack.defer(() => rm(folder, { recursive: true }));
	const host = { ...EXAMPLE, agent: null };
	const names = Array.from({ length: 10 }, (_, index) => `host-${index}`);
	await Promise.all(names.map((name) => new Hosts(folder).add({ ...host, name })));
	const hosts = new Hosts(folder);
	expect((await hosts.list()).map(({ name }) => name)).toEqual(names);
	const adding = names.map(() => new Hosts(folder).add({ ...host, name: "one" }));
	const ends = await Promise.allSettled(adding);
	expect(ends.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
	await hosts.remove("one");
	expect(await readdir(join(folder, "hosts"))).toHaveLength(10);
});

test.for([".", "..", "", "a\n", "a/b", "../a", "A", "local", "a".repeat(300)])(
	"%j is no name of a machine",
	async (name) => {
		const folder = await mkdtemp(join(tmpdir(), "paddock-hosts-"));
		const hosts = new Hosts(folder);
		await expect(hosts.add({ ...EXAMPLE, name, agent: null })).rejects.toMatchObject({ code: "bad_host" });
		await expect(hosts.find(name)).rejects.toMatchObject({ code: "unknown_host" });
		await expect(hosts.remove(name)).rejects.toMatchObject({ code: "unknown_host" });
		await rm(folder, { recursive: true });
	},
);
