import { describe, expect, test as plain } from "vitest";
import { z } from "zod";
import { RolloutRequest } from "../../src/model/request.ts";
import { Environment } from "../../src/openenv/environment.ts";
import type { Tool } from "../../src/tools/tools.ts";
import { completedCall } from "../fixtures/calls.ts";
import { callFrame, task, test } from "./fixtures.ts";
import { type Json, resultOf } from "./raw-client.ts";

/** What OpenEnv's client refuses to parse, as a schema of what it takes. */
const command = z.object({ cmd: z.string(), exit_code: z.int(), stdout: z.string(), stderr: z.string() });
const Accepted = z.object({
	task_id: z.string(),
	sandbox_id: z.string(),
	reward: z.number().nullable(),
	agent_exit_code: z.int().nullable(),
	wall_s: z.number(),
	mode: z.string(),
	setup_results: z.array(command),
	verify_results: z.array(command),
	proxy_turns: z.array(
		z.object({
			turn: z.int(),
			completion_tokens: z.array(z.string()),
			completion_token_ids: z.array(z.int()),
			per_token_logps: z.array(z.number()),
			latency_s: z.number(),
			timestamp: z.number(),
			upstream_status: z.int().nullable(),
			upstream_error: z.record(z.string(), z.unknown()).nullable(),
		}),
	),
	files: z.record(z.string(), z.string()),
	files_extra: z.array(z.string()),
	agent_log_tail: z.string(),
	proxy_log_tail: z.string(),
	error: z.string().nullable(),
});

describe("a result holds nothing that the client refuses", () => {
	const request = RolloutRequest.parse({
		task: { id: "t", instruction: "x" },
		endpoint: { type: "policy", policy: "oracle" },
	});

	test("with an infinite logprob and a failed call in it", async ({ client, paddock }) => {
		await paddock.store.submit({ rollouts: [{ id: "rollout_1", request }] });
		await paddock.complete("rollout_1", 0.5, [
			completedCall({ logprobs: [-0.5, -Infinity], invalidTokens: [1] }),
			completedCall({
				index: 1,
				error: { code: "provider_error", message: "500" },
				upstreamStatus: 500,
				complete: false,
			}),
		]);
		const reply = await client.ask(callFrame("finalize_rollout", { rollout_id: "rollout_1" }));
		const result = resultOf(reply);
		expect(Accepted.safeParse(result).error).toBeUndefined();
		const [turn] = result.proxy_turns as { per_token_logps: number[]; completion_token_ids: number[] }[];
		expect(turn?.per_token_logps).toEqual([-0.5, -9999]);
		expect(turn?.completion_token_ids).toHaveLength(2);
		expect((reply.data as Json).observation).not.toHaveProperty("tools");
		expect(reply).toMatchObject({ data: { reward: 0.5, done: true } });
	});

	test("while it is unfinished", async ({ client }) => {
		const { rollout_id } = resultOf(
			await client.ask(callFrame("start_rollout", { ...task, instruction: "hang" })),
		);
		const reply = await client.ask(callFrame("finalize_rollout", { rollout_id, wait_s: 0 }));
		expect(Accepted.safeParse(resultOf(reply)).error).toBeUndefined();
		expect(reply).toMatchObject({ data: { reward: null, done: false } });
	});
});

describe("sizes", () => {
	const call = (sizeBytes: number) => {
		const tool: Tool = {
			name: "big",
			title: "",
			description: "",
			input: z.strictObject({}),
			output: z.object({}),
			isLong: false,
			readOnly: true,
			run: async () => ({ rollout_id: "rollout_1", text: "x".repeat(sizeBytes) }),
		};
		const environment = new Environment(new Map([["big", tool]]), { whenAbandoned: () => "abort" });
		return environment.step("big", {}, { signal: new AbortController().signal });
	};

	plain("30 MB are sent once", async () => {
		const frame = JSON.stringify(await call(30_000_000));
		expect(frame.length).toBeLessThan(30_001_000);
	});

	plain("more than a client takes is refused with the route that has it", async () => {
		expect(await call(96 * 1024 * 1024)).toMatchObject({
			observation: {
				result: null,
				error: {
					error_type: "execution_error",
					message: expect.stringContaining("/api/v1/rollouts/rollout_1/result"),
				},
			},
		});
	});
});
