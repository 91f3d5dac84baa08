import { describe, expect, test } from "vitest";
import { toTrajectory } from "../../src/export/atif.ts";
import { randomCalls } from "../store/trace-random.ts";
import { AtifTrajectory } from "./atif-rules.ts";
import { streamed } from "./calls.ts";
import { aRollout } from "./shelf.ts";
import { assistant, system, ToyEngine, tool, user } from "./toy-engine.ts";

const rollout = aRollout({ id: "ro_1", reward: 0.5 });
const START = [system("be helpful"), user("fix it")];
const asks = (name: string, args: string) =>
	assistant("", { tool_calls: [{ id: "c1", type: "function", function: { name, arguments: args } }] });

/** Main agent with a title, a sub-agent, a compaction, thinking and tools. */
function everything(): ToyEngine {
	const engine = new ToyEngine();
	const delegate = asks("task", '{"prompt":"look around"}');
	engine.call([system("You are a title generator"), user("t")], assistant("Title"), {
		purpose: "title",
		tools: [],
	});
	engine.call(START, delegate);
	engine.call([system("explore"), user("look around")], assistant("seen"), {
		purpose: "subagent",
		sessionId: "ses_sub",
		parentSessionId: "ses_main",
		agentName: "general",
	});
	const history = [...START, delegate, tool("seen")];
	engine.call(history, assistant("thought", { reasoning_content: "hmm" }), {
		usage: { promptTokens: 10, completionTokens: 3, cachedTokens: 7 },
	});
	engine.call([system("summarise"), user("all")], assistant("we looked"), {
		purpose: "compaction",
		tools: [],
	});
	engine.call([START[0]!, user("what did we do"), assistant("we looked"), user("go on")], assistant("done"));
	return engine;
}

describe("an ATIF trajectory", () => {
	test("of a rollout with everything in it keeps the rules of the format", async () => {
		const engine = everything();
		const trajectory = AtifTrajectory.parse(
			await toTrajectory(rollout, streamed(engine.calls), { agentVersion: "1.18.33" }),
		);
		expect(trajectory.agent).toEqual({
			name: "opencode",
			version: "1.18.33",
			model_name: "scripted",
			tool_definitions: [{ name: "bash" }],
			extra: { agent: "build" },
		});
		expect(trajectory.extra).toEqual({
			rollout_id: "ro_1",
			task_id: "echo",
			group_id: null,
			reward: 0.5,
			outcome: "completed",
		});
		expect(
			trajectory.steps.map((step) => [step.source, step.message, step.is_copied_context ?? false]),
		).toEqual([
			["system", "be helpful", false],
			["user", "fix it", false],
			["agent", "", false],
			["agent", "thought", false],
			["system", "The conversation so far was replaced by a summary.", false],
			["user", "what did we do", true],
			["agent", "we looked", true],
			["user", "go on", true],
			["agent", "done", false],
		]);
		expect(trajectory.final_metrics).toEqual({
			total_prompt_tokens: engine.calls.reduce((sum, call) => sum + call.usage!.promptTokens, 0),
			total_completion_tokens: engine.calls.reduce((sum, call) => sum + call.usage!.completionTokens, 0),
			total_cached_tokens: 7,
			total_steps: 9,
		});
		expect(trajectory.notes).toBe("The totals include 1 title and 1 compaction calls, which are no steps.");
	});

	test("has one step for each inference, with its tokens", async () => {
		const engine = everything();
		const trajectory = AtifTrajectory.parse(await toTrajectory(rollout, streamed(engine.calls)));
		const call = engine.calls[3]!;
		expect(trajectory.steps[3]).toMatchObject({
			llm_call_count: 1,
			timestamp: new Date(call.startedAt).toISOString(),
			reasoning_content: "hmm",
			metrics: {
				prompt_tokens: 10,
				completion_tokens: 3,
				cached_tokens: 7,
				completion_token_ids: call.completionIds,
				logprobs: call.logprobs,
				extra: { call: 3, purpose: "main", finish_reason: "stop", engine: "vllm 0.26.1" },
			},
		});
		expect(trajectory.steps[3]!.metrics).not.toHaveProperty("prompt_token_ids");
		const whole = AtifTrajectory.parse(
			await toTrajectory(rollout, streamed(engine.calls), { withPromptIds: true }),
		);
		expect(whole.steps[3]!.metrics!.prompt_token_ids).toEqual(call.promptIds);
	});

	test("embeds the sub-agent and refers to it from the call that started it", async () => {
		const trajectory = AtifTrajectory.parse(await toTrajectory(rollout, streamed(everything().calls)));
		expect(trajectory.subagent_trajectories?.map((child) => child.trajectory_id)).toEqual(["ses_sub"]);
		expect(trajectory.subagent_trajectories?.[0]?.steps).toHaveLength(3);
		expect(trajectory.steps[2]).toMatchObject({
			tool_calls: [{ tool_call_id: "c1", function_name: "task", arguments: { prompt: "look around" } }],
			observation: {
				results: [
					{
						source_call_id: "c1",
						content: "seen",
						subagent_trajectory_ref: [{ trajectory_id: "ses_sub", session_id: "ses_sub" }],
					},
				],
			},
		});
	});

	test("marks the compaction as the format says", async () => {
		const trajectory = AtifTrajectory.parse(await toTrajectory(rollout, streamed(everything().calls)));
		expect(trajectory.steps[4]).toMatchObject({
			observation: { results: [{ content: "we looked" }] },
			extra: { context_management: { type: "compaction", boundary: "replace" } },
		});
	});

	test("takes the step-limit note for no inference, arguments that are no JSON for text, images for images", async () => {
		const engine = new ToyEngine();
		const image = {
			role: "user",
			content: [
				{ type: "text", text: "see" },
				{ type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
			],
		};
		engine.call([START[0]!, image], asks("bash", "not json"));
		const note = assistant("CRITICAL - MAXIMUM STEPS REACHED");
		engine.call([START[0]!, image, asks("bash", "not json"), tool("ok"), note], assistant("summary"));
		const trajectory = AtifTrajectory.parse(await toTrajectory(rollout, streamed(engine.calls)));
		expect(trajectory.steps[1]!.message).toEqual([
			{ type: "text", text: "see" },
			{ type: "image", source: { media_type: "image/png", path: "data:image/png;base64,AA==" } },
		]);
		expect(trajectory.steps[2]!.tool_calls![0]!.arguments).toEqual({ raw: "not json" });
		expect(trajectory.steps[3]).toMatchObject({ source: "agent", llm_call_count: 0 });
	});

	test("a result first seen after a compaction also reaches the step that asked for it", async () => {
		const engine = new ToyEngine();
		engine.call(START, asks("bash", "{}"));
		engine.call([system("summarise"), user("all")], assistant("short"), { purpose: "compaction", tools: [] });
		engine.call(
			[START[0]!, user("so far?"), assistant("short"), asks("bash", "{}"), tool("ok")],
			assistant("done"),
		);
		const { steps } = AtifTrajectory.parse(await toTrajectory(rollout, streamed(engine.calls)));
		const asking = steps.filter((step) => step.tool_calls);
		expect(asking.map((step) => step.is_copied_context ?? false)).toEqual([false, true]);
		for (const step of asking)
			expect(step.observation?.results).toEqual([{ source_call_id: "c1", content: "ok" }]);
	});

	test("of a rollout without calls does not exist", async () => {
		expect(await toTrajectory(rollout, streamed([]))).toBeNull();
	});

	test.each(Array.from({ length: 20 }, (_, seed) => seed))(
		"of random calls keeps the rules, seed %i",
		async (seed) => {
			const trajectory = await toTrajectory(rollout, streamed(randomCalls(seed)));
			AtifTrajectory.parse(JSON.parse(JSON.stringify(trajectory)));
		},
	);
});
