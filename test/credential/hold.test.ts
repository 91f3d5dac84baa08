import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { holdCredential } from "../../src/credential/hold.ts";
import { OutageError } from "../../src/errors.ts";
import type { Credentials } from "../../src/store/credentials.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";

afterEach(() => vi.useRealTimers());

async function openStage(): Promise<{ store: Store } & AsyncDisposable> {
	const home = await mkdtemp(join(tmpdir(), "paddock-hold-"));
	const store = await openSqliteStore({ home });
	await store.credentials.add({
		label: "login",
		kind: "login",
		endpoint: null,
		capacity: 1,
		secret: "the token",
	});
	return {
		store,
		async [Symbol.asyncDispose]() {
			await store[Symbol.asyncDispose]();
			await rm(home, { recursive: true });
		},
	};
}

test("a credential is held while it is used, and free for the next one after", async () => {
	await using stage = await openStage();
	const { credentials } = stage.store;
	{
		await using held = await holdCredential(credentials, "login", "ro_1 1");
		expect(held.hold.secret).toBe("the token");
		expect((await credentials.find("login"))?.holders).toMatchObject([
			{ holder: expect.stringMatching(/^ro_1 1 [0-9a-f]{8}$/) },
		]);
		await expect(holdCredential(credentials, "login", "ro_2 1")).rejects.toMatchObject({
			code: "credential_held",
		});
		expect(held.lost.aborted).toBe(false);
	}
	expect((await credentials.find("login"))?.holders).toEqual([]);
	await expect(holdCredential(credentials, "nobody", "ro_2 1")).rejects.toMatchObject({
		code: "unknown_credential",
	});
});

test("a holder whose credential was taken away hears of it with the next heartbeat", async () => {
	await using stage = await openStage();
	const { credentials } = stage.store;
	vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "setTimeout", "clearTimeout", "performance"] });
	await using held = await holdCredential(credentials, "login", "ro_1 1");
	await credentials.remove("login", { force: true });
	const lost = once(held.lost, "abort");
	vi.advanceTimersByTime(10_000);
	await lost;
});

test("a store that says nothing is no permission: use stops before the hold can be another's", async () => {
	await using stage = await openStage();
	const { credentials } = stage.store;
	vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "setTimeout", "clearTimeout", "performance"] });
	let tries = 0;
	const away = new Proxy(credentials, {
		get(target, name) {
			const value: unknown = Reflect.get(target, name);
			if (name !== "renew") return typeof value === "function" ? value.bind(target) : value;
			return async () => {
				tries += 1;
				throw new OutageError("away");
			};
		},
	}) as Credentials;
	await using held = await holdCredential(away, "login", "ro_1 1");
	await vi.advanceTimersByTimeAsync(49_000);
	expect(held.lost.aborted).toBe(false);
	expect(tries).toBe(4);
	await vi.advanceTimersByTimeAsync(1_000);
	expect(held.lost.aborted).toBe(true);
});
