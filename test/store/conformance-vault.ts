import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, copyFile, readFile, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/store/store.ts";
import { newRollout, request, submitOne } from "./conformance.ts";
import type { RestingFixture } from "./conformance-tasks.ts";

const ROTATING = fileURLToPath(new URL("./rotate-child.ts", import.meta.url));

const WITH_KEY = request({
	endpoint: { type: "url", baseUrl: "http://127.0.0.1:1/v1", model: "m", apiKey: "sk-canary-0123456789" },
});

/** Keys that seal keys that seal secrets. */
export function vaultConformance(
	name: string,
	openFixture: (context: TestContext) => Promise<RestingFixture>,
): void {
	describe(`${name} keeps its keys`, () => {
		test("a new master key opens all that the old one did, and the old one nothing", async (context) => {
			await using fixture = await openFixture(context);
			const keyFile = join(fixture.address.home, "secret.key");
			let id = "";
			const submission = { rollouts: [newRollout()], idempotencyKey: "again" };
			{
				await using store = await fixture.open();
				await using other = await fixture.open();
				id = await withSecret(store);
				await store.submit(submission);
				await copyFile(keyFile, `${keyFile}.old`);
				await store.rotateKey();
				// Who has the store open goes on, and so does a second rotation from there.
				expect(await other.secret(id)).toBe("sk-canary-0123456789");
				await other.rotateKey();
			}
			expect((await stat(keyFile)).mode & 0o777).toBe(0o600);
			expect(await readFile(keyFile)).not.toEqual(await readFile(`${keyFile}.old`));
			{
				await using store = await fixture.open();
				expect(await store.secret(id)).toBe("sk-canary-0123456789");
				expect((await store.submit(submission)).fresh).toBe(false);
			}
			await copyFile(`${keyFile}.old`, keyFile);
			await expect(fixture.open()).rejects.toMatchObject({ code: "bad_key_file" });
		});

		test("a rotation that was interrupted, before or after the database changed, is gone on with", async (context) => {
			await using fixture = await openFixture(context);
			const keyFile = join(fixture.address.home, "secret.key");
			await using store = await fixture.open();
			const id = await withSecret(store);

			// Before: the new key lies there, and nothing is sealed with it yet.
			await writeFile(`${keyFile}.next`, Buffer.alloc(32, 7), { mode: 0o600 });
			const before = await readFile(keyFile);
			{
				await using again = await fixture.open();
				expect(await again.secret(id)).toBe("sk-canary-0123456789");
				expect(await readFile(keyFile)).toEqual(before);
				await again.rotateKey();
			}
			expect(await readFile(keyFile)).toEqual(Buffer.alloc(32, 7));

			// After: all is sealed with the new key, and the file is still the old one.
			await rename(keyFile, `${keyFile}.next`);
			await writeFile(keyFile, before, { mode: 0o600 });
			await using again = await fixture.open();
			expect(await again.secret(id)).toBe("sk-canary-0123456789");
			expect(await readFile(keyFile)).toEqual(Buffer.alloc(32, 7));
			await expect(stat(`${keyFile}.next`)).rejects.toMatchObject({ code: "ENOENT" });
		});

		test("whoever is killed while it rotates the key loses no secret", {
			timeout: 60_000,
		}, async (context) => {
			await using fixture = await openFixture(context);
			const keyFile = join(fixture.address.home, "secret.key");
			const id = await (async () => {
				await using store = await fixture.open();
				return await withSecret(store);
			})();
			for (let kill = 0; kill < 6; kill += 1) {
				const before = await readFile(keyFile, "hex");
				const child = spawn(process.execPath, [ROTATING, JSON.stringify(fixture.address)], {
					stdio: "ignore",
				});
				const gone = once(child, "exit");
				// The new key lies beside the old one, whether the database has changed over or not; or it took its place just now.
				const isDue = async () =>
					kill % 2 === 0 ? existsSync(`${keyFile}.next`) : (await readFile(keyFile, "hex")) !== before;
				while (!(await isDue())) await new Promise(setImmediate);
				child.kill("SIGKILL");
				expect(await gone).toEqual([null, "SIGKILL"]);
				await using store = await fixture.open();
				expect(await store.secret(id)).toBe("sk-canary-0123456789");
				await store.rotateKey();
				expect(existsSync(`${keyFile}.next`)).toBe(false);
			}
		});

		test("a master key file that its owner names is rotated where it lies", async (context) => {
			await using fixture = await openFixture(context);
			const { home } = fixture.address;
			const keyFile = join(home, "master.key");
			await writeFile(keyFile, Buffer.alloc(32, 1), { mode: 0o600 });
			const id = await (async () => {
				await using store = await fixture.open({ keyFile });
				const added = await withSecret(store);
				await store.rotateKey();
				return added;
			})();
			expect(await readFile(keyFile)).not.toEqual(Buffer.alloc(32, 1));
			expect((await stat(keyFile)).mode & 0o777).toBe(0o600);
			for (const path of [join(home, "secret.key"), `${keyFile}.next`])
				await expect(stat(path)).rejects.toMatchObject({ code: "ENOENT" });
			await using store = await fixture.open({ keyFile });
			expect(await store.secret(id)).toBe("sk-canary-0123456789");
			await writeFile(`${keyFile}.old`, Buffer.alloc(32, 1), { mode: 0o600 });
			await expect(fixture.open({ keyFile: `${keyFile}.old` })).rejects.toMatchObject({
				code: "bad_key_file",
			});
		});

		test("a secret that is damaged, or was another rollout's, is told from a good one", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const [one, two] = [await withSecret(store), await withSecret(store)];
			await fixture.tamper(
				`UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE rollout_id = '${one}') WHERE rollout_id = '${two}'`,
			);
			await expect(store.secret(two)).rejects.toMatchObject({ code: "secret_unreadable" });
			await fixture.tamper("UPDATE secrets SET sealed = substr(sealed, 1, length(sealed) - 1)");
			await expect(store.secret(one)).rejects.toMatchObject({ code: "secret_unreadable" });
			await expect(store.secret(one)).rejects.not.toThrow(/canary/);
		});

		test("a master key file that its owner names is read, never made, and must be the owner's alone", async (context) => {
			await using fixture = await openFixture(context);
			const keyFile = join(fixture.address.home, "master.key");
			await expect(fixture.open({ keyFile })).rejects.toThrow(/head -c 32/);
			await writeFile(keyFile, Buffer.alloc(32, 1), { mode: 0o600 });
			await chmod(keyFile, 0o644);
			await expect(fixture.open({ keyFile })).rejects.toThrow(/chmod 600/);
			await chmod(keyFile, 0o600);
			await (await fixture.open({ keyFile }))[Symbol.asyncDispose]();
			await expect(stat(join(fixture.address.home, "secret.key"))).rejects.toMatchObject({ code: "ENOENT" });
			await expect(fixture.open()).rejects.toMatchObject({ code: "bad_key_file" });
			await writeFile(keyFile, "short");
			await expect(fixture.open({ keyFile })).rejects.toThrow(/must hold 32 bytes/);
		});
	});
}

async function withSecret(store: Store): Promise<string> {
	return (await submitOne(store, { request: WITH_KEY })).id;
}
