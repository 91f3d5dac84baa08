import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { verifyCommands } from "../../src/verify/verifier.ts";
import { filesHolding, toolOutputs } from "../fixtures/evidence.ts";
import { example, openTestPaddock, policy, type TestPaddock } from "../fixtures/paddock.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";

let station: TestPaddock;
beforeAll(async () => {
	station = await openTestPaddock();
});
afterAll(async () => await station?.[Symbol.asyncDispose]());

describe("a rollout of the real agent", () => {
	test("oracle solves fizzbuzz, every main call has its tokens, and all three logs say what happened", async () => {
		const events = "/home/user/logs/agent/opencode.jsonl";
		const fizzbuzz = await example("fizzbuzz");
		const asked = { ...fizzbuzz, verify: [...verifyCommands(fizzbuzz), `grep -q file.edited ${events}`] };
		const result = await station.run({
			task: { ...asked, artifacts: [events] },
			endpoint: policy("oracle"),
		});
		expect(result).toMatchObject({ reward: 1, outcome: "completed", failure: null, error: null });
		const main = result.proxy_turns.filter((turn) => turn.purpose === "main");
		expect(main.length).toBeGreaterThanOrEqual(2);
		for (const turn of main) {
			expect(turn.completion_token_ids.length).toBeGreaterThan(0);
			expect(turn.per_token_logps).toHaveLength(turn.completion_token_ids.length);
			expect(turn.prompt_token_ids.length).toBeGreaterThan(0);
		}
		expect(result.install_log_tail).toMatch(/ (new|warm) \S+ box \S+ is open\n/);
		expect(result.proxy_log_tail).toMatch(/ call 0 \(\w+\) begins\n.*the agent has ended: completed\n$/s);
		expect(result.proxy_log_tail.match(/ call \d+ ends: /g)).toHaveLength(result.proxy_turns.length);
		expect(result.agent_log_tail).toMatch(/^\{"at":\d+,"type":"message\.part\.updated".*\}$/m);
		// One chain of tokens behind the unmodified agent: every call goes on from the one before.
		expect(await station.paddock.certificate(result.rollout_id)).toMatchObject({
			trainable: true,
			mainShare: 1,
			continuity: { samples: 1, stitched: main.length - 1, wentOn: main.length - 1, breaks: {}, plain: {} },
		});
	});

	test("a model that is not there fails its rollout before any box, after all its attempts", async () => {
		const baseUrl = "http://127.0.0.1:9/v1";
		const endpoint = { type: "url", baseUrl, model: "m", dialect: "auto" } as const;
		const result = await station.run({ task: task(), endpoint });
		expect(result).toMatchObject({
			...{ reward: null, outcome: "failed", sandbox_id: "" },
			failure: { boundary: "provider", code: "provider_unreachable" },
			error: expect.stringContaining(baseUrl),
		});
		const { items } = (await station.paddock.events(result.rollout_id, { after: 0, limit: 100 }))!;
		expect(items.filter(({ type }) => type === "attempt-failed")).toHaveLength(1);
		expect(items.filter(({ type }) => type === "rollout-start")).toHaveLength(2);
	});

	test("noop gets nothing, and that is a result", async () => {
		const result = await station.run({ task: await example("fizzbuzz"), endpoint: policy("noop") });
		expect(result).toMatchObject({ reward: 0, outcome: "completed", failure: null });
	});

	test("the upstream key is nowhere in the box", async () => {
		const canary = "sk-canary-1f6b2c9e8d7a";
		// A pattern that does not match itself: the command and the grep are processes in the box, too.
		const wanted = "'canary-1f6b2c9e[8]d7a'";
		const search = [
			`env | grep -c ${wanted}`,
			`cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c ${wanted}`,
			`grep -rl --binary-files=text ${wanted} / --exclude-dir=proc --exclude-dir=usr 2>/dev/null | wc -l`,
		];
		await using model = await openScriptedModel([bash(search.join("; ")), say("done")], { apiKey: canary });
		const result = await station.run({ task: task(), endpoint: model.endpoint });
		expect(result.outcome).toBe("completed");
		expect(toolOutputs(result.proxy_turns.at(-1))).toEqual(["0\n0\n0\n"]);
		expect(JSON.stringify(result)).not.toContain(canary);
		expect(await filesHolding(station.home, canary)).toEqual([]);
	});

	test.each(["cheat-reward", "cheat-tests", "cheat-conftest", "cheat-daemon", "cheat-payload"])(
		"%s gets the verifier's reward, not its own",
		async (name) => {
			const result = await station.run({ task: await example("fizzbuzz"), endpoint: policy(name) });
			expect(result).toMatchObject({ reward: 0, outcome: "completed" });
		},
	);

	test("a failing setup ends the rollout before the agent exists", async () => {
		const result = await station.run({
			task: task({ setup: ["true", "echo no such thing >&2; exit 3", "touch never"], verify: ["true"] }),
			endpoint: policy("noop"),
		});
		expect(result).toMatchObject({
			reward: null,
			outcome: "failed",
			failure: { boundary: "task", code: "setup_failed" },
		});
		expect(result.setup_results.map((each) => each.exit_code)).toEqual([0, 3]);
		expect(result.proxy_turns).toEqual([]);
		expect(result.verify_results).toEqual([]);
	});

	test("an agent out of time is stopped, and what it did is verified", async () => {
		await using model = await openScriptedModel([bash("echo half > half.txt; sleep 300"), say("done")]);
		const result = await station.run({
			task: task({ clocks: { agentS: 4 }, verify: ["test -f half.txt", "test -f whole.txt"] }),
			endpoint: model.endpoint,
		});
		expect(result).toMatchObject({ outcome: "timeout", reward: 0.5 });
	});

	test("a budget of calls ends the rollout as budget, and what was done is verified", async () => {
		await using model = await openScriptedModel([bash("touch one"), bash("touch two"), say("done")]);
		const result = await station.run({
			task: task({ budget: { maxCalls: 1 }, verify: ["test -f one", "test -f two"] }),
			endpoint: model.endpoint,
		});
		expect(result).toMatchObject({ outcome: "budget", reward: 0.5 });
		expect(result.proxy_turns).toHaveLength(1);
	});

	test("the run driver reaches the same reward", async () => {
		const result = await station.run({
			task: await example("fizzbuzz"),
			endpoint: policy("oracle"),
			agent: { driver: "run" },
		});
		expect(result).toMatchObject({ reward: 1, outcome: "completed", agent_exit_code: 0 });
		expect(result.proxy_turns.length).toBeGreaterThanOrEqual(2);
	});

	test("black_box mode runs the agent and keeps no call", async () => {
		const result = await station.run({
			task: await example("fizzbuzz"),
			endpoint: policy("oracle"),
			mode: "black_box",
		});
		expect(result).toMatchObject({ reward: 1, outcome: "completed", proxy_turns: [] });
	});
});
