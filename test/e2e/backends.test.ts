import { expect, test } from "vitest";
import { missingForE2b, startE2b } from "../fakes/e2b.ts";
import { missingForEngine, startEngine } from "../fixtures/docker-engine.ts";
import { example, openTestPaddock, policy } from "../fixtures/paddock.ts";
import { requirePart } from "../fixtures/parts.ts";
import { missingForSshd, startSshd } from "../fixtures/sshd.ts";

/** One in plain shell, one with git; what is given for them here must be given everywhere. */
const EXAMPLES = ["fizzbuzz", "merge-conflict"];

interface Surroundings extends AsyncDisposable {
	env: Record<string, string>;
}

const BACKENDS: Record<string, { missing: () => string | null; start: () => Promise<Surroundings> }> = {
	local: { missing: () => null, start: async () => ({ env: {}, [Symbol.asyncDispose]: async () => {} }) },
	docker: { missing: () => missingForEngine("docker"), start: () => startEngine("docker") },
	/** A local stand-in of the service, with the official SDK: no account is at hand. */
	e2b: { missing: missingForE2b, start: startE2b },
	ssh: { missing: missingForSshd, start: () => startSshd() },
};

test.for(Object.keys(BACKENDS))(
	"the same agent solves the same tasks for the same rewards in %s boxes",
	{ timeout: 180_000 },
	async (sandbox, context) => {
		const { missing, start } = BACKENDS[sandbox]!;
		requirePart(context, sandbox, missing() === null, missing() ?? "");
		await using surroundings = await start();
		await using own = await openTestPaddock({ ...surroundings.env, PADDOCK_SANDBOX: sandbox });
		for (const name of EXAMPLES) {
			const result = await own.run({ task: await example(name), endpoint: policy("oracle"), sandbox });
			expect(result).toMatchObject({ outcome: "completed", failure: null, reward: 1 });
		}
	},
);
