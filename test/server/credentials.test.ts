import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { createApp } from "../../src/server/app.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { clientOf, postJson } from "./caller.ts";

const CANARY = "sk-canary-c0ffee991122";
const KEY = { label: "team", apiKey: CANARY, baseUrl: "https://api.openai.com", model: "gpt-4o-mini" };

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;
let client: Client;

beforeAll(async () => {
	paddock = await openIdlePaddock();
	app = createApp(paddock);
	client = clientOf(app);
});
afterAll(() => paddock[Symbol.asyncDispose]());

test("a key can be stored, seen and forgotten, and no answer holds it", async () => {
	const added = await client.addApiKey(KEY);
	expect(added).toMatchObject({
		label: "team",
		kind: "api-key",
		endpoint: { baseUrl: "https://api.openai.com/v1" },
	});
	expect(await client.credential("team")).toEqual(added);
	expect((await client.credentials()).items).toEqual([added]);
	expect(JSON.stringify(added)).not.toContain(CANARY);
	await expect(client.addApiKey(KEY)).rejects.toMatchObject({ status: 409, code: "credential_exists" });
	expect(await client.removeCredential("team")).toEqual({ removed: true });
	await expect(client.credential("team")).rejects.toMatchObject({ status: 404, code: "unknown_credential" });
	await expect(client.removeCredential("team")).rejects.toMatchObject({ status: 404 });
});

test("a key that is refused is not repeated in the refusal", async () => {
	for (const wrong of [
		{ apiKey: `${CANARY} ${CANARY}` },
		{ baseUrl: "ftp://x" },
		{ extra: CANARY },
		{ label: "No!" },
	]) {
		const response = await postJson(app, "/api/v1/credentials", { ...KEY, ...wrong });
		expect([400, 422]).toContain(response.status);
		expect(await response.text()).not.toContain(CANARY);
	}
	expect((await client.credentials()).items).toEqual([]);
});
