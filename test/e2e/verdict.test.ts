import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestPaddock, type TestPaddock } from "../fixtures/paddock.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";

let station: TestPaddock;
beforeAll(async () => {
	station = await openTestPaddock();
});
afterAll(async () => await station?.[Symbol.asyncDispose]());

const verify = ["grep -q 42 answer", "false"];

describe("the real agent cannot get rid of its verdict", () => {
	test("by killing its own program", async () => {
		const kill =
			"echo 42 > answer; for p in /proc/[0-9]*; do grep -qs serve $p/cmdline && kill -9 ${p#/proc/}; done";
		await using model = await openScriptedModel([bash(kill), say("done")]);
		const result = await station.run({ task: task({ verify }), endpoint: model.endpoint, maxAttempts: 1 });
		expect(result).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
	});

	test("by asking the model for nonsense in its own name", async () => {
		const key =
			"$(cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -o 'pdk-[A-Za-z0-9_-]*' | head -1)";
		const body = `'{"model":"model","messages":[{"role":"nobody"}],"temperature":"hot"}'`;
		const ask = `curl -sS http://127.0.0.1:7000/v1/chat/completions -H "authorization: Bearer ${key}" -H 'content-type: application/json' -d ${body}`;
		await using model = await openScriptedModel([bash(`echo 42 > answer; ${ask}`), say("done")]);
		const result = await station.run({ task: task({ verify }), endpoint: model.endpoint, maxAttempts: 1 });
		expect(result).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
	});
});
