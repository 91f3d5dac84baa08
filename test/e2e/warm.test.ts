import { expect, test } from "vitest";
import type { ModelCall } from "../../src/model/call.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import { example, openTestPaddock, policy, type TestPaddock } from "../fixtures/paddock.ts";

test("boxes made ahead for a task send the same first request as a cold one, and reach the same reward", async () => {
	const request = RolloutRequest.parse({
		task: await example("fix-failing-test"),
		endpoint: policy("oracle"),
	});
	await using cold = await openTestPaddock({ PADDOCK_CONCURRENCY: "1" });
	const [plain] = await runGroup(cold, request, 1);
	await using warm = await openTestPaddock({ PADDOCK_CONCURRENCY: "1", PADDOCK_POOL: "1" });
	const members = await runGroup(warm, request, 3);

	expect(plain).toMatchObject({ warm: false, reward: 1 });
	expect(members.map((member) => member.reward)).toEqual([1, 1, 1]);
	expect(members.map((member) => member.warm)).toEqual([true, true, true]);
	expect(members.map((member) => member.primed)).toEqual([false, true, true]);
	for (const member of members) expect(member.firstRequest).toEqual(plain!.firstRequest);
	expect(new Set(members.map((member) => member.sandboxId)).size).toBe(3);
});

test("an agent that must ask for permissions is primed as well, although nobody is there to answer", async () => {
	const agent = { permission: "ask" };
	const request = RolloutRequest.parse({ task: await example("fizzbuzz"), endpoint: policy("noop"), agent });
	await using warm = await openTestPaddock({ PADDOCK_CONCURRENCY: "1", PADDOCK_POOL: "1" });
	// The generic box, which fits none of them, is made first.
	const members = await runGroup(warm, request, 4);
	expect(members.map((member) => member.primed)).toContain(true);
});

async function runGroup(station: TestPaddock, request: RolloutRequest, n: number) {
	const { rollouts } = await station.paddock.submit(request, { n });
	const members = [];
	for (const { id } of rollouts) {
		const done = await station.paddock.wait(id, { timeoutMs: 150_000 });
		const [first] = await Array.fromAsync(station.paddock.calls(id));
		const { summary, reward } = done!;
		const { warm, primed } = summary!.box;
		members.push({ reward, warm, primed, sandboxId: summary!.sandboxId, firstRequest: sent(first!) });
	}
	return members;
}

/** All that went upstream, in its order; the name of a scripted model is another one each time. */
function sent({ request }: ModelCall): string {
	return JSON.stringify([request.messages, request.tools, { ...request.params, model: null }]);
}
