import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { loadConfig } from "../../src/config.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import { openPaddock } from "../../src/paddock.ts";
import { task } from "../fixtures/script.ts";

const LAUNCHER = join(import.meta.dirname, "../../bin/paddock.mjs");

test("view shows what a folder holds, changes nothing and runs nothing", async () => {
	const home = await mkdtemp(join(tmpdir(), "paddock-view-"));
	const request = RolloutRequest.parse({ task: task(), endpoint: { type: "policy", policy: "noop" } });
	let id = "";
	{
		await using paddock = await openPaddock(loadConfig({ PADDOCK_HOME: home }, home));
		id = (await paddock.submit(request)).rollouts[0]!.id;
	}
	const child = spawn(process.execPath, [LAUNCHER, "view", home], {
		env: { PATH: process.env.PATH ?? "", HOME: home },
		stdio: ["ignore", "pipe", "inherit"],
	});
	const [address] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
	expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/web$/);
	const client = createClient({ baseUrl: new URL(address).origin });
	expect((await client.list()).items.map((row) => row.id)).toEqual([id]);
	expect(await client.status()).toMatchObject({ readOnly: true, capacity: 0 });
	expect((await fetch(address)).status).toBe(200);
	await expect(client.abort(id)).rejects.toMatchObject({ status: 403, code: "read_only" });
	await expect(client.submit(request)).rejects.toMatchObject({ code: "read_only" });
	expect((await fetch(new URL("/mcp", address), { method: "POST", body: "{}" })).status).toBe(403);
	expect((await client.get(id)).status).toBe("queued");
	child.kill("SIGINT");
	expect((await once(child, "exit"))[0]).toBe(0);
	await rm(home, { recursive: true });
});

test("view makes no store where there is none", async () => {
	const folder = await mkdtemp(join(tmpdir(), "paddock-view-"));
	const viewing = promisify(execFile)(process.execPath, [LAUNCHER, "view", folder]);
	await expect(viewing).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining("no paddock.db") });
	expect(await readdir(folder)).toEqual([]);
	await rm(folder, { recursive: true });
});
