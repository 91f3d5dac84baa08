import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import type { Waiting } from "../../src/credential/wait.ts";
import { newId } from "../../src/model/id.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import type { Deps } from "../../src/rollout/deps.ts";
import { type CastEndpoint, castEndpoint } from "../../src/rollout/endpoint.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { task } from "../fixtures/script.ts";

test("a rollout's own key that is damaged is the endpoint's trouble, and said to be", async () => {
	const home = await mkdtemp(join(tmpdir(), "paddock-endpoint-"));
	await using stack = new AsyncDisposableStack();
	stack.defer(() => rm(home, { recursive: true }));
	const endpoint = { type: "url", baseUrl: "http://127.0.0.1:1/v1", model: "m", apiKey: "k" };
	const request = RolloutRequest.parse({ task: task({}), endpoint });
	const id = newId("ro");
	{
		await using store = await openSqliteStore({ home });
		await store.submit({ rollouts: [{ id, request }] });
	}
	const database = new DatabaseSync(join(home, "paddock.db"));
	database.exec("UPDATE secrets SET sealed = substr(sealed, 1, length(sealed) - 1)");
	database.close();
	const store = stack.use(await openSqliteStore({ home }));
	const rollout = await store.begin(id, "test");
	await expect(castEndpoint(rollout!, { store, env: {} } as Deps)).rejects.toMatchObject({
		name: "RolloutError",
		boundary: "provider",
		code: "endpoint_not_configured",
		message: expect.stringContaining("damaged"),
	});
});

test("a credential that others use just now is waited for, or worth another try; a login is no endpoint, and is given back", async () => {
	const home = await mkdtemp(join(tmpdir(), "paddock-endpoint-"));
	await using stack = new AsyncDisposableStack();
	stack.defer(() => rm(home, { recursive: true }));
	const store = stack.use(await openSqliteStore({ home }));
	const { credentials } = store;
	const endpoint = { baseUrl: "http://127.0.0.1:1/v1", model: "stored", dialect: "plain" } as const;
	await credentials.add({ label: "key", kind: "api-key", endpoint, capacity: 1, secret: "sk-12345678" });
	await credentials.add({ label: "login", kind: "login", endpoint: null, capacity: 1, secret: "{}" });
	const cast = async (name: string, waiting?: Waiting) => {
		const request = RolloutRequest.parse({ task: task({}), endpoint: { type: "named", name } });
		const id = newId("ro");
		await store.submit({ rollouts: [{ id, request }] });
		return await castEndpoint((await store.begin(id, "test"))!, { store, env: {} } as Deps, waiting);
	};
	{
		await using first = await cast("cred:key");
		expect(first.endpoint).toMatchObject({ ...endpoint, name: "cred:key", apiKey: "sk-12345678" });
		await expect(cast("cred:key")).rejects.toMatchObject({ code: "credential_held", retryable: true });
	}
	const first = (await cast("cred:key")) as CastEndpoint & AsyncDisposable;
	const { promise: hasToWait, resolve: onWait } = Promise.withResolvers<void>();
	const later = cast("cred:key", { signal: new AbortController().signal, onWait });
	await hasToWait;
	const stop = new AbortController();
	const given = cast("cred:key", { signal: stop.signal, onWait: () => stop.abort(new Error("enough")) });
	await expect(given).rejects.toThrow("enough");
	await first[Symbol.asyncDispose]();
	// Whoever waited has it now.
	await ((await later) as AsyncDisposable)[Symbol.asyncDispose]();
	await expect(cast("cred:login")).rejects.toMatchObject({ code: "endpoint_not_configured" });
	for (const { holders } of await credentials.list()) expect(holders).toEqual([]);
});
