import { expect, test } from "vitest";
import { Backends } from "../../src/backends.ts";
import { loadConfig } from "../../src/config.ts";
import { BoxSpec } from "../../src/model/task.ts";

test.each([
	["memoryMb", 100_000_000],
	["diskMb", 100_663_296],
	["cpus", 10_000],
	["pids", 10_000_000],
] as const)("a task that asks for a box with %s %i does not get it", async (name, value) => {
	await using backends = new Backends(
		{ env: {}, home: "/nowhere" },
		() => {},
		loadConfig({}, "/").boxCeiling,
	);
	const backend = await backends.get("process");
	const opening = backend.open({ spec: BoxSpec.parse({ [name]: value }), onGateway: () => {} });
	await expect(opening).rejects.toMatchObject({ boundary: "task", code: "box_too_large", retryable: false });
});

test("the ceiling is the operator's to set", () => {
	const env = { PADDOCK_MAX_BOX_MEMORY_MB: "4096", PADDOCK_MAX_BOX_PIDS: "100" };
	expect(loadConfig(env, "/").boxCeiling).toMatchObject({ memoryMb: 4096, pids: 100 });
});
