import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import { openProcessBackend } from "../../src/sandbox/process/process.ts";
import { conformance } from "./conformance.ts";

conformance({
	name: "process",
	isolated: false,
	open: () => openProcessBackend({ warn: () => {} }),
	missing: async () => {
		await using backend = await openProcessBackend({ warn: () => {} });
		return (await backend.available()).ok ? null : "npm install";
	},
});

test("each opening of a box without walls is warned about", async () => {
	const warnings: string[] = [];
	await using backend = await openProcessBackend({ warn: (message) => warnings.push(message) });
	for (let round = 0; round < 2; round += 1) {
		await using _box = await backend.open({ spec: BoxSpec.parse({}), onGateway: (c) => c.destroy() });
	}
	expect(warnings).toHaveLength(2);
	expect(warnings[0]).toContain("isolates nothing");
});

test("a run folder that somebody else could have filled is neither used nor cleaned up after", async () => {
	const runRoot = await mkdtemp(join(tmpdir(), "paddock-open-"));
	await chmod(runRoot, 0o777);
	await using backend = await openProcessBackend({ warn: () => {}, runRoot });
	const refusal = { boundary: "sandbox", code: "run_folder_not_ours" };
	await expect(backend.reap()).rejects.toMatchObject(refusal);
	const opening = backend.open({ spec: BoxSpec.parse({}), onGateway: (c) => c.destroy() });
	await expect(opening).rejects.toMatchObject(refusal);
	await rm(runRoot, { recursive: true });
});
