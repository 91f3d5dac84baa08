import { afterAll, beforeAll, expect, test } from "vitest";
import { RolloutRequest } from "../../src/model/request.ts";
import { filesHolding } from "../fixtures/evidence.ts";
import { openTestPaddock, type TestPaddock } from "../fixtures/paddock.ts";
import { openScriptedModel, say, task } from "../fixtures/script.ts";

let station: TestPaddock;
beforeAll(async () => {
	station = await openTestPaddock();
});
afterAll(async () => await station?.[Symbol.asyncDispose]());

test("a stored API key is an endpoint: the provider gets it, and nothing that is written holds it", async () => {
	const canary = "sk-canary-5b1d77e0c4a2";
	await using model = await openScriptedModel([say("done")], { apiKey: canary });
	const { baseUrl, model: name } = model.endpoint;
	const { paddock } = station;
	await paddock.addApiKey({ label: "team", apiKey: `${canary}\n`, baseUrl, model: name, dialect: "vllm" });
	const result = await station.run({ task: task(), endpoint: { type: "named", name: "cred:team" } });
	expect(result).toMatchObject({ outcome: "completed", failure: null });
	expect(result.proxy_turns.length).toBeGreaterThan(0);
	expect(await paddock.credential("team")).toMatchObject({ holders: [], lastUsedAt: expect.any(Number) });
	expect(JSON.stringify([result, await paddock.credentials()])).not.toContain(canary);
	expect(await filesHolding(station.home, canary)).toEqual([]);
});

test("a credential that is not there, or is told another address, is refused before anything is stored", async () => {
	const submit = (endpoint: object) =>
		station.paddock.submit(RolloutRequest.parse({ task: task(), endpoint: { type: "named", ...endpoint } }));
	await expect(submit({ name: "cred:nobody" })).rejects.toMatchObject({ code: "unknown_credential" });
	const elsewhere = { name: "cred:team", baseUrl: "https://thief.example/v1" };
	await expect(submit(elsewhere)).rejects.toMatchObject({ code: "endpoint_conflict" });
});
