import type { Duplex } from "node:stream";
import { expect, test } from "vitest";
import { opencode } from "../../src/agent/opencode.ts";
import { openGateway } from "../../src/gateway/agent-side/server.ts";
import type { ModelCall } from "../../src/model/call.ts";
import { AgentOptions, RolloutRequest } from "../../src/model/request.ts";
import { BoxSpec } from "../../src/model/task.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
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

test.each(["allow", "ask"] as const)(
	"priming ends by itself where permissions are %s: nobody is there to be asked",
	async (permission) => {
		await using backend = await openLocalBackend();
		await using gateway = await openGateway();
		const accept = (connection: Duplex, boxId: string) => gateway.accept(connection, boxId);
		await using box = await backend.open({ spec: BoxSpec.parse({}), onGateway: accept });
		const key = "pdk-warm";
		const options = AgentOptions.parse({ permission });
		await using agent = await opencode.boot(box, options, key, new AbortController().signal);
		using _priming = gateway.prime(box.id, key);
		await agent.prime(box.home);
		await agent.openAhead(box.home);
		await agent.ping();
	},
);

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
