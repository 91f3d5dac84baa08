import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { addressOf } from "../../src/host/ssh/address.ts";
import { connectSsh, type SshConnection } from "../../src/host/ssh/connection.ts";
import { type NamedHost, startNamedHost } from "../fixtures/named-host.ts";
import { requirePart } from "../fixtures/parts.ts";
import { missingForSshd } from "../fixtures/sshd.ts";

const run = promisify(execFile);
const missing = missingForSshd();

let big: NamedHost;
let connection: SshConnection;
beforeAll(async () => {
	if (missing !== null) return;
	big = await startNamedHost();
	connection = await connectSsh(addressOf(big.record));
});
afterAll(async () => {
	await connection?.[Symbol.asyncDispose]();
	await big?.[Symbol.asyncDispose]();
});
beforeEach((context) => requirePart(context, "sshd", missing === null, missing ?? ""));

test("a command that does not end is ended there at its limit, with what it started, and the login goes on", async () => {
	const script = "trap 'exit 1' TERM\nsleep 98751 &\nsleep 98752\n";
	await expect(connection.script(script, { timeoutMs: 300 })).rejects.toMatchObject({ code: "ssh_timeout" });
	expect(await processes("sleep 9875[12]")).toEqual([]);
	expect((await connection.script("echo on")).stdout).toBe("on\n");
});

test("one that takes no hint is killed", async () => {
	const script = "trap '' TERM\nsleep 98753\n";
	await expect(connection.script(script, { timeoutMs: 300 })).rejects.toMatchObject({ code: "ssh_timeout" });
	expect(await processes("sleep 98753")).toEqual([]);
});

test("a caller who gives up ends it, and gets its own reason", async () => {
	const giveUp = new AbortController();
	const running = connection.script("sleep 98754", { signal: giveUp.signal });
	await expect.poll(() => processes("sleep 98754")).toHaveLength(1);
	giveUp.abort(new Error("enough"));
	await expect(running).rejects.toThrow("enough");
	expect(await processes("sleep 98754")).toEqual([]);
	await expect(connection.script("echo late", { signal: giveUp.signal })).rejects.toThrow("enough");
});

test("one whose connection breaks ends there by itself", async () => {
	await using other = await connectSsh(addressOf(big.record));
	const running = other.script("sleep 98755");
	await expect.poll(() => processes("sleep 98755")).toHaveLength(1);
	await big.sshd.breakConnections();
	await expect(running).rejects.toMatchObject({ code: "ssh_unreachable", retryable: true });
	await expect.poll(() => processes("sleep 98755")).toEqual([]);
});

async function processes(pattern: string): Promise<string[]> {
	const { stdout } = await run("pgrep", ["-u", big.sshd.user, "-f", `^${pattern}$`]).catch(() => ({
		stdout: "",
	}));
	return stdout.split("\n").filter(Boolean);
}
