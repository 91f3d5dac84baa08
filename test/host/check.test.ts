import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { Backends } from "../../src/backends.ts";
import { Hosts } from "../../src/host/hosts.ts";
import { checkHost } from "../../src/host/visit.ts";
import { BoxSpec } from "../../src/model/task.ts";
import { Paddock } from "../cli/paddock.ts";
import { type NamedHost, startNamedHost } from "../fixtures/named-host.ts";
import { requirePart } from "../fixtures/parts.ts";
import { missingForSshd, type SshdOptions } from "../fixtures/sshd.ts";

const run = promisify(execFile);
const missing = missingForSshd();

let big: NamedHost;
let hosts: Hosts;
beforeAll(async () => {
	if (missing !== null) return;
	big = await startNamedHost();
	hosts = new Hosts(big.home);
});
afterAll(() => big?.[Symbol.asyncDispose]());
beforeEach(async (context) => {
	requirePart(context, "sshd", missing === null, missing ?? "");
	for (const { name } of await hosts.list()) await hosts.remove(name);
	await hosts.add(big.record);
});

async function installScript(version: string): Promise<string> {
	const { path, sha256 } = await big.archiveOf(version);
	expect(await big.ask("install", "big", "--archive", path, "--sha256", sha256)).toMatchObject({ code: 0 });
	return (await hosts.find("big")).agent!.path;
}

async function openBox(home: string): Promise<void> {
	await using backends = new Backends({ env: {}, home }, () => {});
	const backend = await backends.get("ssh:big");
	const spec = BoxSpec.parse({ diskMb: 16 });
	await using _box = await backend.open({ spec, onGateway: (connection) => connection.destroy() });
}

test("what was changed there is not started, not even for its version", async () => {
	const agent = await installScript("1.2.3");
	const witness = join(big.sshd.home, "was-started");
	await chmod(agent, 0o700);
	await writeFile(agent, `#!/bin/sh\ntouch ${witness}\necho 1.2.3\n`);
	expect(await big.ask("check", "big")).toMatchObject({
		code: 1,
		said: expect.stringContaining("is not the agent that was installed there"),
	});
	expect(existsSync(witness)).toBe(false);
});

test("an agent that says another version than the installed one is told, and one that differs from Paddock's is noted", async () => {
	await installScript("1.2.3");
	expect(await big.ask("check", "big", "--wrap", "nice -n 1")).toMatchObject({
		code: 0,
		said: expect.stringMatching(/ok {2}version: OpenCode 1\.2\.3; Paddock comes with \d+\.\d+\.\d+/),
	});
	expect(await big.ask("check", "big", "--wrap", "/usr/bin/env MARK=-wrapped")).toMatchObject({
		code: 1,
		said: expect.stringContaining("it says 1.2.3-wrapped, not 1.2.3"),
	});
});

test("an agent that a box brought is as good as an installed one; one that is gone or changed is installed anew when asked", async () => {
	await rm(join(big.sshd.home, ".cache/paddock"), { recursive: true, force: true });
	expect(await big.ask("check", "big")).toMatchObject({
		code: 1,
		said: expect.stringContaining("the first box brings it along"),
	});
	await openBox(big.home);
	const brought = await big.ask("check", "big");
	expect(brought).toMatchObject({ code: 0, said: expect.stringMatching(/ok {2}version: OpenCode [\d.]+\n/) });

	expect(await big.ask("check", "big", "--install")).toEqual(brought);
	expect((await hosts.find("big")).agent).toBeNull();
	expect(await big.ask("install", "big")).toMatchObject({
		code: 0,
		said: expect.stringContaining("Already there"),
	});
	const { path } = (await hosts.find("big")).agent!;
	for (const damage of [() => rm(path), () => writeFile(path, "changed")]) {
		await damage();
		expect(await big.ask("check", "big")).toMatchObject({ code: 1 });
		expect(await big.ask("check", "big", "--install")).toMatchObject({
			code: 0,
			said: expect.stringMatching(/^Installed OpenCode/),
		});
	}
});

const UNMADE = "/tmp/paddock-not-made-for-root";
const UNSUITABLE: [string, SshdOptions, RegExp][] = [
	["without bubblewrap", { without: ["/usr/bin/bwrap"] }, /bubblewrap does not work/],
	["without git", { without: ["/usr/bin/git"] }, /lacks git/],
	["whose login is root", { root: true, env: { XDG_CACHE_HOME: UNMADE } }, /login is root/],
];

test.for(UNSUITABLE)(
	"a machine %s is refused by a look and by a box in the same words",
	async ([, options, words]) => {
		await using other = await startNamedHost(options);
		await new Hosts(other.home).add(other.record);
		const { code, said } = await other.ask("check", "big");
		expect({ code, said }).toMatchObject({ code: 1, said: expect.stringMatching(words) });
		await expect(openBox(other.home)).rejects.toThrow(words);
		expect(said).not.toContain("PADDOCK_SSH_");
		expect(existsSync(UNMADE)).toBe(false);
		const plain = await checkHost({ ...other.record, allowPlain: true });
		expect(plain.checks.find(({ name }) => name === "machine")?.ok).toBe(
			options.without?.[0] === "/usr/bin/bwrap",
		);
	},
);

test("a named machine's advice is about its options, and a fingerprint that is none is refused when it is given", async () => {
	const { address, keyFile } = big.record;
	const bad = ["add", "other", address, "--key-file", keyFile!, "--fingerprint", "SHA256:short"];
	expect(await big.ask(...bad)).toMatchObject({ code: 2, said: expect.stringContaining("43 characters") });
	expect(
		await big.ask("add", "other", address, "--key-file", keyFile!, "--known-hosts", "none"),
	).toMatchObject({
		code: 0,
	});
	const { code, said } = await big.ask("check", "other");
	expect(code).toBe(1);
	expect(said).toContain("--fingerprint");
	expect(said).not.toContain("PADDOCK_SSH_FINGERPRINT");
	// Written by hand into the file.
	expect(await checkHost({ ...big.record, fingerprint: "SHA256:short" })).toMatchObject({
		ok: false,
		checks: [{ name: "login", ok: false, detail: expect.stringContaining("43 characters") }],
	});
});

test("Ctrl-C ends what a look has started there", async () => {
	await installScript("1.2.3");
	const slow = join(big.sshd.home, "slow");
	await writeFile(slow, "#!/bin/sh\nsleep 98761 &\nexec sleep 98762\n", { mode: 0o755 });
	await using paddock = await Paddock.open();
	const checking = paddock.start(["host", "check", "big", "--wrap", slow], {
		env: { PADDOCK_HOME: big.home },
	});
	await expect.poll(() => processes("sleep 9876[12]"), { timeout: 30_000 }).toHaveLength(2);
	checking.child.kill("SIGINT");
	expect(await checking.ended).toMatchObject({ code: 130 });
	expect(await processes("sleep 9876[12]")).toEqual([]);
});

async function processes(pattern: string): Promise<string[]> {
	const { stdout } = await run("pgrep", ["-u", big.sshd.user, "-f", `^${pattern}$`]).catch(() => ({
		stdout: "",
	}));
	return stdout.split("\n").filter(Boolean);
}
