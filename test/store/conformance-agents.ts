import { describe, expect, type TestContext, test } from "vitest";
import type { NewKeptAgent } from "../../src/store/kept-agents.ts";
import type { RestingFixture } from "./conformance-tasks.ts";

const CANARY = "canary-5f3e9a7716";
const SECRETS = { password: `${CANARY}-password`, key: `pk-${CANARY}`, apiKey: `sk-${CANARY}` };
const HELPER: NewKeptAgent = {
	...{ name: "helper", home: "/srv/helper", host: null, binary: null, via: "gateway", permission: "ask" },
	endpoint: { type: "url", baseUrl: "https://models.example/v1", model: "small", dialect: "auto" },
	models: ["small", "large"],
	budget: { maxTotalTokens: 1000 },
};
const HERE = { machine: "here", pid: 1, startTime: "10" };
const THERE = { machine: "there", pid: 2, startTime: "20" };

/** The agents that are kept outside any box. */
export function agentConformance(
	name: string,
	openFixture: (context: TestContext) => Promise<RestingFixture>,
): void {
	describe(`${name} keeps records of agents`, () => {
		test("one that was added is listed without its secrets, which rest nowhere in clear", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await using other = await fixture.open();
			const added = await store.agents.add(HELPER, SECRETS);
			expect(await other.agents.list()).toEqual([added]);
			expect(JSON.stringify(added)).not.toContain(CANARY);
			await expect(other.agents.add(HELPER, SECRETS)).rejects.toMatchObject({ code: "agent_exists" });
			expect(await other.agents.secrets("helper")).toEqual(SECRETS);
			expect(await fixture.holds(CANARY)).toBe(false);
			await other.rotateKey();
			expect(await store.agents.secrets("helper")).toEqual(SECRETS);
		});

		test("of many that want to keep it at once, one gets it; what it spends adds up", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			await one.agents.add(HELPER, SECRETS);
			const taken = await Promise.all([
				one.agents.take("helper", HERE, null),
				two.agents.take("helper", THERE, null),
			]);
			expect(taken.filter((agent) => agent !== null)).toHaveLength(1);
			const [keeper] = taken.flatMap((agent) => (agent === null ? [] : [agent.keptBy!]));
			expect(await two.agents.take("helper", { ...THERE, pid: 3 }, keeper!)).toMatchObject({ starts: 2 });
			// Whoever lost it can say nothing about it any more.
			await one.agents.listens("helper", keeper!, "http://127.0.0.1:1");
			await one.agents.release("helper", keeper!);
			expect(await one.agents.find("helper")).toMatchObject({ baseUrl: null, keptBy: { pid: 3 } });
			const spent = { calls: 1, promptTokens: 10, completionTokens: 3 };
			await Promise.all(
				Array.from({ length: 20 }, (_, at) => (at % 2 ? one : two).agents.spend("helper", spent)),
			);
			expect((await two.agents.find("helper"))!.spent).toEqual({
				calls: 20,
				promptTokens: 200,
				completionTokens: 60,
			});
		});

		test("whoever watches it hears of a change by another process, and of its end", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			const { id, keyFingerprint } = await one.agents.add(HELPER, SECRETS);
			let heard = 0;
			using _watching = one.watch(id, () => {
				heard += 1;
			});
			await two.agents.change("helper", { revokedAt: 5 }, { needsRestart: false });
			await expect.poll(() => heard).toBeGreaterThan(0);
			expect(await one.agents.find("helper")).toMatchObject({ revokedAt: 5, needsRestart: false });
			const renewed = await two.agents.renewKey("helper", "pk-other");
			expect(renewed).toMatchObject({ revokedAt: null });
			expect(renewed!.keyFingerprint).not.toBe(keyFingerprint);
			expect(await one.agents.secrets("helper")).toEqual({ ...SECRETS, key: "pk-other" });
			const before = heard;
			expect(await two.agents.remove("helper")).toBe(true);
			expect(await two.agents.remove("helper")).toBe(false);
			if (fixture.address.type === "postgres") await expect.poll(() => heard).toBeGreaterThan(before);
			await expect(one.agents.secrets("helper")).rejects.toMatchObject({ code: "unknown_agent" });
		});
	});
}
