import { execFile, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { findAgentBinary } from "../../src/host/binary.ts";
import { digestOf } from "../../src/host/digest.ts";
import { keysFor } from "../../src/host/ssh/known-hosts.ts";
import { BoxSpec } from "../../src/model/task.ts";
import type { Backend } from "../../src/sandbox/sandbox.ts";
import { openSshBackend } from "../../src/sandbox/ssh/ssh.ts";
import { requirePart } from "../fixtures/parts.ts";
import { missingForSshd, startSshd, type TestSshd } from "../fixtures/sshd.ts";
import { conformance } from "./conformance.ts";
import { expectSlowReaderLosesNothing } from "./slow-reader.ts";
import { expectGuardedWayOut } from "./way-out.ts";

const run = promisify(execFile);
const ORPHAN_MAKER = join(import.meta.dirname, "ssh-orphan-program.ts");

const missing = missingForSshd();
let sshd: TestSshd;
let root: string;

beforeAll(async () => {
	root = await mkdtemp(join(tmpdir(), "pd-"));
	if (missing === null) sshd = await startSshd();
});
afterAll(async () => {
	if (missing === null) await sshd[Symbol.asyncDispose]();
	await rm(root, { recursive: true, force: true });
});

const here = (context: TestContext) => requirePart(context, "sshd", missing === null, missing ?? "");
const openBackend = (env: Record<string, string> = {}, warn = (_: string) => {}) =>
	openSshBackend({ env: { ...sshd.env, ...env }, warn, runRoot: root });
const openBox = (backend: Backend, spec: Partial<BoxSpec> = {}) =>
	backend.open({ spec: BoxSpec.parse(spec), onGateway: (connection) => connection.destroy() });

conformance({
	name: "ssh",
	isolated: true,
	missing: async () => missing,
	open: () => openBackend(),
});

describe("the host's key", () => {
	test("a pinned fingerprint lets in, without any known_hosts", async (context) => {
		here(context);
		const env = { PADDOCK_SSH_FINGERPRINT: sshd.fingerprint, PADDOCK_SSH_KNOWN_HOSTS: "/nowhere" };
		await using backend = await openBackend(env);
		await using box = await openBox(backend);
		expect((await box.exec("echo in")).stdout).toBe("in\n");
	});

	test("a host that shows another key is refused, by fingerprint and by known_hosts", async (context) => {
		here(context);
		await using pinned = await openBackend({ PADDOCK_SSH_FINGERPRINT: `SHA256:${"A".repeat(43)}` });
		await expect(openBox(pinned)).rejects.toMatchObject({ code: "ssh_host_key_refused", retryable: false });
		const file = join(root, "wrong_hosts");
		const known = await readFile(sshd.env.PADDOCK_SSH_KNOWN_HOSTS!, "utf8");
		const [name = "", type = "", key = ""] = known.trim().split(" ");
		const other = Buffer.from(key, "base64");
		other[other.length - 1]! ^= 1;
		await writeFile(file, `${name} ${type} ${other.toString("base64")}\n`);
		await using listed = await openBackend({ PADDOCK_SSH_KNOWN_HOSTS: file });
		await expect(openBox(listed)).rejects.toMatchObject({ code: "ssh_host_key_refused" });
	});

	test("a host nobody knows is refused, and the file stays as it was", async (context) => {
		here(context);
		const file = join(root, "empty_hosts");
		await writeFile(file, "# nobody\n");
		await using backend = await openBackend({ PADDOCK_SSH_KNOWN_HOSTS: file });
		await expect(openBox(backend)).rejects.toMatchObject({ code: "ssh_host_unknown" });
		expect(await readFile(file, "utf8")).toBe("# nobody\n");
	});

	test("known_hosts is read with ports, patterns, hashed names and revoked keys", () => {
		const key = (name: string) => Buffer.from(name).toString("base64");
		const salt = Buffer.alloc(20, 7);
		const hashed = createHmac("sha1", salt).update("[box.example]:2222").digest("base64");
		const text = [
			`other.example ssh-ed25519 ${key("other")}`,
			`[box.example]:2222 ssh-ed25519 ${key("plain")}`,
			`|1|${salt.toString("base64")}|${hashed} ssh-rsa ${key("hashed")}`,
			`[*.example]:2222,![bad.example]:2222 ssh-ed25519 ${key("pattern")}`,
			`@revoked * ssh-ed25519 ${key("revoked")}`,
			`[box.example]:2222 ssh-ed25519 ${key("revoked")}`,
			`box.example ssh-ed25519 ${key("port 22")}`,
		].join("\n");
		const found = (host: string, port: number) => keysFor({ host, port }, text).map(String);
		expect(found("box.example", 2222)).toEqual(["plain", "hashed", "pattern"]);
		expect(found("bad.example", 2222)).toEqual([]);
		expect(found("box.example", 22)).toEqual(["port 22"]);
	});
});

describe("the other machine", () => {
	test("gets each program once, checked, however many arrive at the same time", async (context) => {
		here(context);
		const cache = join(sshd.home, ".cache/paddock");
		await rm(cache, { recursive: true, force: true });
		await using one = await openBackend();
		await using two = await openBackend();
		const boxes = await Promise.all([openBox(one), openBox(two)]);
		const folders = (await readdir(cache)).filter((name) => /^[0-9a-f]{64}$/.test(name));
		const files = await Promise.all(folders.map((folder) => readdir(join(cache, folder))));
		expect(files.flat().sort()).toEqual(["agent", "bridge.ts", "init.ts", "run-untrusted"]);
		for (const [index, folder] of folders.entries()) {
			const { stdout } = await run("sha256sum", [join(cache, folder, files[index]![0]!)]);
			expect(stdout.split(" ")[0]).toBe(folder);
		}
		const agent = join(cache, folders[files.findIndex((names) => names.includes("agent"))]!, "agent");
		const { ino } = await stat(agent);
		await using three = await openBackend();
		await using _box = await openBox(three);
		expect((await stat(agent)).ino).toBe(ino);
		await Promise.all(boxes.map((box) => box[Symbol.asyncDispose]()));
	});

	test("believes no program there by its name and size: what was changed is brought anew", async (context) => {
		here(context);
		await using before = await openBackend();
		await (await openBox(before))[Symbol.asyncDispose]();
		const { stdout } = await run("find", [join(sshd.home, ".cache/paddock"), "-name", "init.ts"]);
		const installed = stdout.trim().split("\n");
		for (const path of installed) await writeFile(path, "x".repeat((await stat(path)).size));
		await using after = await openBackend();
		await using box = await openBox(after);
		expect((await box.exec("echo alive")).stdout).toBe("alive\n");
	});

	test("keeps nobody waiting who has given up, while somebody else installs there", async (context) => {
		here(context);
		const sha256 = await digestOf(findAgentBinary());
		const cache = join(sshd.home, ".cache/paddock");
		await rm(join(cache, sha256), { recursive: true, force: true });
		await using warm = await openBackend();
		await (await openBox(warm))[Symbol.asyncDispose]();
		const holder = spawn("flock", [join(cache, `${sha256}.lock`), "sleep", "5773"], { detached: true });
		const letGo = () => void process.kill(-holder.pid!, "SIGKILL");
		context.onTestFailed(letGo);
		await appears("sleep 5773");
		await using backend = await openBackend();
		const giveUp = new AbortController();
		const opening = backend.open({
			spec: BoxSpec.parse({}),
			onGateway: (connection) => connection.destroy(),
			signal: giveUp.signal,
		});
		await appears(`flock ${cache}/${sha256}.lock /bin/sh -c .*`);
		giveUp.abort(new Error("enough"));
		await expect(opening).rejects.toThrow("enough");
		letGo();
		await vanishes("sleep 5773");
		await using box = await openBox(backend);
		expect((await box.exec("echo on")).stdout).toBe("on\n");
	});

	test("keeps no process and no folder of a closed box", async (context) => {
		here(context);
		await using backend = await openBackend();
		const box = await openBox(backend);
		await box.exec("setsid -f sleep 2718; true");
		expect(await processes("sleep 2718")).toHaveLength(1);
		await box[Symbol.asyncDispose]();
		expect(await processes("sleep 2718")).toEqual([]);
		expect(await readdir(join(sshd.home, ".cache/paddock/boxes"))).toEqual([]);
	});

	test("ends the box by itself when the connection breaks", async (context) => {
		here(context);
		await using backend = await openBackend();
		const box = await openBox(backend);
		const lost = box.exec("setsid -f sleep 1618; sleep 1618");
		lost.catch(() => {});
		await appears("sleep 1618");
		await sshd.breakConnections();
		await box.closed;
		await expect(lost).rejects.toMatchObject({ code: "box_lost", retryable: true });
		await vanishes("sleep 1618");
		await vanishes(box.id);
	});

	test("loses the boxes of a killed owner, and what its guardian could not end is reaped", async (context) => {
		here(context);
		await using backend = await openBackend();
		await using mine = await openBox(backend);
		const owner = spawn(process.execPath, [ORPHAN_MAKER, root], {
			env: { ...process.env, ...sshd.env },
			stdio: ["ignore", "pipe", "inherit"],
		});
		const boxId = String((await once(owner.stdout!, "data"))[0]).trim();
		const folder = join(sshd.home, ".cache/paddock/boxes", boxId);
		const guardian = Number((await readFile(join(folder, "guardian"), "utf8")).split(" ")[0]);
		process.kill(guardian, "SIGSTOP");
		owner.kill("SIGKILL");
		await once(owner, "exit");
		expect(await processes("sleep 3141")).toHaveLength(1);
		expect(await backend.reap()).toBe(1);
		await vanishes("sleep 3141");
		expect((await readdir(join(folder, ".."))).filter((name) => name !== mine.id)).toEqual([]);
		expect((await mine.exec("echo mine")).stdout).toBe("mine\n");
		expect(await backend.reap()).toBe(0);
	});

	test("that cannot be reached is a failure one can retry", async (context) => {
		here(context);
		await using backend = await openBackend({
			PADDOCK_SSH_HOST: `${sshd.user}@127.0.0.1:1`,
			PADDOCK_SSH_FINGERPRINT: sshd.fingerprint,
		});
		await expect(openBox(backend)).rejects.toMatchObject({ code: "ssh_unreachable", retryable: true });
		expect(await backend.available()).toMatchObject({ ok: false, checks: [{ name: "login", ok: false }] });
	});

	test("that does not take the key says so", async (context) => {
		here(context);
		const key = join(root, "stranger");
		await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", key]);
		await using backend = await openBackend({ PADDOCK_SSH_KEY_FILE: key });
		await expect(openBox(backend)).rejects.toMatchObject({ code: "ssh_login_refused" });
	});

	test("lets a box out through the host's proxy alone", async (context) => {
		here(context);
		await using backend = await openBackend();
		await expectGuardedWayOut(backend);
	});

	test("passes on all of an answer to a box that reads slowly", async (context) => {
		here(context);
		await using backend = await openBackend();
		await expectSlowReaderLosesNothing(backend);
	});

	test("passes its self-test", async (context) => {
		here(context);
		await using backend = await openBackend();
		const { ok, checks } = await backend.available();
		expect(checks.filter((check) => !check.ok)).toEqual([]);
		expect(ok).toBe(true);
	});
});

test("without bubblewrap there is no box, unless boxes without walls are asked for by name", async (context) => {
	here(context);
	await using bare = await startSshd({ without: ["/usr/bin/bwrap"] });
	await using strict = await openBackend(bare.env);
	await expect(openBox(strict)).rejects.toMatchObject({ code: "ssh_no_walls" });
	const warnings: string[] = [];
	await using lax = await openBackend({ ...bare.env, PADDOCK_SSH_ALLOW_PLAIN: "1" }, (m) => warnings.push(m));
	const box = await openBox(lax);
	expect(warnings[0]).toContain("isolate nothing");
	expect(box.facts.isolation).toBe("none");
	await box.exec("setsid -f sleep 5772; true");
	expect((await box.exec("pwd")).stdout.trim()).toBe(box.home);
	await box[Symbol.asyncDispose]();
	expect(await processes("sleep 5772")).toEqual([]);
});

test("a host that is not said, or said wrongly, is refused in words", async () => {
	for (const host of ["", "nohost", "a@b:99999", "a b@c"]) {
		await expect(openSshBackend({ env: { PADDOCK_SSH_HOST: host }, warn: () => {} })).rejects.toMatchObject({
			code: "ssh_not_configured",
		});
	}
});

async function processes(pattern: string): Promise<string[]> {
	const { stdout } = await run("pgrep", ["-f", `^${pattern}$`]).catch(() => ({ stdout: "" }));
	return stdout.split("\n").filter(Boolean);
}

async function appears(pattern: string): Promise<void> {
	while ((await processes(pattern)).length === 0) await sleep(20);
}

async function vanishes(pattern: string): Promise<void> {
	while ((await processes(pattern)).length > 0) await sleep(20);
}
