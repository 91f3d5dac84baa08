import { expect, test } from "vitest";
import { openProcessProvider } from "../../src/sandbox/process.ts";
import { verify } from "../../src/verify/clean-box.ts";
import { task } from "../fixtures/script.ts";

test("a task may say /home/user in a box whose home is elsewhere", async () => {
	await using provider = await openProcessProvider({ warn: () => {} });
	await using clean = await provider.open({
		spec: task().box,
		role: "verifier",
		onGateway: (connection) => connection.destroy(),
	});
	const tests = [{ path: "test.sh", content: "exit 0\n" }];
	const options = { signal: new AbortController().signal, onResult: () => {} };
	const { reward, results } = await verify(task({ tests }), clean, options);
	expect(clean.home).not.toBe("/home/user");
	expect(reward).toBe(1);
	expect(results.map((result) => result.cmd)).toEqual(["bash /home/user/tests/test.sh"]);
});
