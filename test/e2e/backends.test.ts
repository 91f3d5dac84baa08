import { readdirSync } from "node:fs";
import { basename } from "node:path";
import { expect, test } from "vitest";
import type { RolloutResult } from "../../src/model/result.ts";
import { Paddock } from "../cli/paddock.ts";
import { missingForE2b, startE2b } from "../fakes/e2b.ts";
import { missingForEngine, startEngine } from "../fixtures/docker-engine.ts";
import { requirePart } from "../fixtures/parts.ts";
import { missingForSshd, startSshd } from "../fixtures/sshd.ts";

const EVERY_EXAMPLE = readdirSync("examples/tasks").map((name) => `examples/tasks/${name}`);

interface Surroundings extends AsyncDisposable {
	env: Record<string, string>;
}

interface Backend {
	missing: () => string | null;
	start: () => Promise<Surroundings>;
	tasks: string[];
}

const BACKENDS: Record<string, Backend> = {
	local: {
		missing: () => null,
		start: async () => ({ env: {}, [Symbol.asyncDispose]: async () => {} }),
		tasks: EVERY_EXAMPLE,
	},
	docker: {
		missing: () => missingForEngine("docker"),
		start: () => startEngine("docker"),
		tasks: EVERY_EXAMPLE,
	},
	ssh: { missing: missingForSshd, start: () => startSshd(), tasks: EVERY_EXAMPLE },
	/** A local stand-in of the service, with the official SDK: no account is at hand. One task in plain shell, one with git. */
	e2b: {
		missing: missingForE2b,
		start: startE2b,
		tasks: ["examples/tasks/fizzbuzz", "examples/tasks/merge-conflict"],
	},
};

test.for(Object.keys(BACKENDS))(
	"paddock run --sandbox %s: the same agent solves the same tasks for the same rewards",
	{ timeout: 600_000 },
	async (sandbox, context) => {
		const { missing, start, tasks } = BACKENDS[sandbox]!;
		requirePart(context, sandbox, missing() === null, missing() ?? "");
		await using surroundings = await start();
		await using paddock = await Paddock.open();
		const operands = tasks === EVERY_EXAMPLE ? ["examples/tasks"] : tasks;
		const { code, stdout, stderr } = await paddock.run(
			["run", ...operands, "--sandbox", sandbox, "--policy", "oracle", "--json"],
			{ env: surroundings.env },
		);
		expect(code, stderr).toBe(0);
		const results = stdout
			.trim()
			.split("\n")
			.map((line) => JSON.parse(line) as RolloutResult);
		const rewards = Object.fromEntries(results.map((result) => [result.task_id, result.reward]));
		expect(rewards).toEqual(Object.fromEntries(tasks.map((path) => [basename(path), 1])));
	},
);
