import { expect, test } from "vitest";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import { openProcessBackend } from "../../src/sandbox/process/process.ts";
import type { OpenOptions } from "../../src/sandbox/sandbox.ts";
import { verify } from "../../src/verify/verifier.ts";
import { task } from "../fixtures/script.ts";

const options = { signal: new AbortController().signal, onResult: () => {} };

const CLEAN: OpenOptions = {
	spec: task().box,
	role: "verifier",
	onGateway: (connection) => connection.destroy(),
};

test("a task may say /home/user in a box whose home is elsewhere", async () => {
	await using backend = await openProcessBackend({ warn: () => {} });
	await using clean = await backend.open(CLEAN);
	const tests = [{ path: "test.sh", content: "exit 0\n" }];
	const { reward, results } = await verify(task({ tests }), clean, options);
	expect(clean.home).not.toBe("/home/user");
	expect(reward).toBe(1);
	expect(results.map((result) => result.cmd)).toEqual(["bash /home/user/tests/test.sh"]);
});

test("a reward that cannot be read as a file is the verifier's failure", async () => {
	await using backend = await openLocalBackend();
	await using clean = await backend.open(CLEAN);
	const verdict = verify(task({ verify: ["mkdir ~/logs/verifier/reward.json"] }), clean, options);
	await expect(verdict).rejects.toMatchObject({ boundary: "verifier", code: "bad_reward" });
});

test("a write-protected reward that was there before is gone when the verifier begins", async () => {
	await using backend = await openLocalBackend();
	await using clean = await backend.open(CLEAN);
	await clean.exec("mkdir -p ~/logs/verifier && echo 1 > ~/logs/verifier/reward.txt");
	await clean.exec("chmod 444 ~/logs/verifier/reward.txt && chmod 555 ~/logs/verifier ~/logs");
	const claims = task({ verify: ["false # the agent's own reward.txt"] });
	expect((await verify(claims, clean, options)).reward).toBe(0);
});

test("where a reward file is required, a script that writes none earns nothing, not even by its exit code", async () => {
	await using backend = await openProcessBackend({ warn: () => {} });
	await using clean = await backend.open(CLEAN);
	const tests = [{ path: "test.sh", content: "exit 0\n" }];
	expect((await verify(task({ tests, rewardFile: "required" }), clean, options)).reward).toBeNull();
	const writing = [{ path: "test.sh", content: "echo 0.5 > /home/user/logs/verifier/reward.txt\n" }];
	const inHome = writing.map((file) => ({
		...file,
		content: file.content.replace("/home/user", clean.home),
	}));
	expect((await verify(task({ tests: inHome, rewardFile: "required" }), clean, options)).reward).toBe(0.5);
});
