import { describe, expect, test } from "vitest";
import { type ReadBlob, toResult } from "../../src/export/result.ts";
import type { BlobName } from "../../src/model/blob.ts";
import { RolloutResult } from "../../src/model/result.ts";
import type { TraceSummary } from "../../src/model/rollout.ts";
import { aCall, streamed } from "./calls.ts";
import { aRollout } from "./shelf.ts";

const summary: TraceSummary = {
	version: 1,
	sandboxId: "box_1",
	sessionId: "ses_main",
	setup: [{ cmd: "true", exitCode: 0, stdout: "", stderr: "", durationS: 0.1 }],
	verify: [
		{
			cmd: "bash /home/user/tests/test.sh",
			exitCode: 3,
			stdout: "o".repeat(5000),
			stderr: "e",
			durationS: 0.2,
		},
	],
	agentExitCode: 0,
	wallS: 4.5,
	timings: {},
	files: [],
	box: {},
	untrainable: null,
};

const blobs =
	(entries: Partial<Record<BlobName, string>>): ReadBlob =>
	async (name) =>
		entries[name] === undefined ? null : Buffer.from(entries[name]);
const none = blobs({});

test("a finished rollout has every field of the wire result", async () => {
	const call = aCall({ index: 0, promptIds: [1, 2], completionIds: [3, 4] });
	const stored = blobs({
		"files.json": JSON.stringify({ "a.txt": "hello", "src/b.ts": "code" }),
		"agent.log": `${"x".repeat(5000)}end`,
		"gateway.log": `${"y".repeat(5000)}call`,
		"install.log": "box is open",
		"verifier.stdout": "seen",
		"verifier.stderr": "",
	});
	const result = RolloutResult.parse(
		await toResult(aRollout({ id: "ro_1", summary }), streamed([call]), stored),
	);
	expect(result).toMatchObject({
		rollout_id: "ro_1",
		task_id: "echo",
		sandbox_id: "box_1",
		reward: 1,
		outcome: "completed",
		failure: null,
		attempt: 1,
		agent_exit_code: 0,
		exit_code: 0,
		wall_s: 4.5,
		mode: "transparent_proxy",
		untrainable: null,
		setup_results: [{ cmd: "true", exit_code: 0, stdout: "", stderr: "", duration_s: 0.1 }],
		test_exit_code: 3,
		verifier_stdout: "seen",
		verifier_stderr: "",
		files: { "/home/user/workdir/a.txt": "hello", "/home/user/workdir/src/b.ts": "code" },
		workdir_files: { "/home/user/workdir/a.txt": "hello", "/home/user/workdir/src/b.ts": "code" },
		files_extra: [],
		proxy_log_tail: `${"y".repeat(3996)}call`,
		install_log_tail: "box is open",
		error: null,
	});
	expect(result.agent_log_tail).toBe(`${"x".repeat(3997)}end`);
	expect(result.verify_results[0]!.stdout).toHaveLength(4000);
	expect(result.proxy_turns).toEqual([
		{
			turn: 0,
			purpose: "main",
			session_id: "ses_main",
			parent_session_id: null,
			finish_reason: "stop",
			request: { ...call.request.params, messages: call.request.messages, tools: [] },
			response: {
				message: call.response.message,
				finish_reason: "stop",
				usage: { prompt_tokens: 2, completion_tokens: 2, total_tokens: 4 },
			},
			prompt_token_ids: [1, 2],
			completion_tokens: ["t3", "t4"],
			completion_token_ids: [3, 4],
			per_token_logps: [-0.25, -0.5],
			latency_s: 0.12,
			timestamp: 1_700_000_000,
			upstream_status: 200,
			upstream_error: null,
		},
	]);
});

describe("files", () => {
	test("32 are handed out, 8,000 characters each; whatever is not here whole is named", async () => {
		const contents = Object.fromEntries(
			Array.from({ length: 40 }, (_, at) => [
				`f${String(at).padStart(2, "0")}`,
				at === 1 ? "x".repeat(9000) : "y",
			]),
		);
		const rollout = aRollout({
			id: "ro_1",
			summary: {
				...summary,
				files: [
					{ path: "f00", sizeBytes: 1 },
					{ path: "big.bin", sizeBytes: 1e9 },
				],
			},
		});
		const result = await toResult(rollout, streamed([]), blobs({ "files.json": JSON.stringify(contents) }));
		expect(Object.keys(result.files)).toHaveLength(32);
		expect(result.files["/home/user/workdir/f01"]).toHaveLength(8000);
		expect(result.files_extra).toEqual([
			"/home/user/workdir/big.bin",
			"/home/user/workdir/f01",
			...Array.from({ length: 8 }, (_, at) => `/home/user/workdir/f${32 + at}`),
		]);
	});

	test("a file named like a property of objects is only a file", async () => {
		const stored = blobs({ "files.json": '{"__proto__": "x", "constructor": "y"}' });
		const result = await toResult(aRollout({ id: "ro_1" }), streamed([]), stored);
		expect(JSON.parse(JSON.stringify(result)).files).toEqual({
			"/home/user/workdir/__proto__": "x",
			"/home/user/workdir/constructor": "y",
		});
		expect(Object.keys(result.workdir_files)).toEqual(Object.keys(result.files));
	});
});

describe("turns", () => {
	test("are in the order of the requests, however the calls ended", async () => {
		const calls = [aCall({ index: 1 }), aCall({ index: 0, purpose: "title" }), aCall({ index: 2 })];
		const result = await toResult(aRollout({ id: "ro_1" }), streamed(calls), none);
		expect(result.proxy_turns.map((turn) => turn.turn)).toEqual([0, 1, 2]);
	});

	test.each([
		["no logprobs", { completionIds: [7, 8], completionTexts: [], logprobs: [] }],
		["too few logprobs", { completionIds: [7, 8], completionTexts: ["a"], logprobs: [-1] }],
		[
			"too many logprobs",
			{ completionIds: [7, 8], completionTexts: ["a", "b", "c"], logprobs: [-1, -2, -3] },
		],
		[
			"logprobs that are no numbers",
			{ completionIds: [7, 8], logprobs: [Number.NaN, Number.NEGATIVE_INFINITY] },
		],
	])("%s: the columns still have one length and only numbers", async (_, fields) => {
		const result = await toResult(aRollout({ id: "ro_1" }), streamed([aCall({ index: 0, ...fields })]), none);
		const [turn] = RolloutResult.parse(JSON.parse(JSON.stringify(result))).proxy_turns;
		expect(turn!.completion_token_ids).toEqual([7, 8]);
		expect(turn!.completion_tokens).toHaveLength(2);
		expect(turn!.per_token_logps).toHaveLength(2);
	});

	test("an engine without ids still shows texts and logprobs", async () => {
		const call = aCall({ index: 0, completionIds: [], completionTexts: ["a", "b"], logprobs: [-1, -2] });
		const [turn] = (await toResult(aRollout({ id: "ro_1" }), streamed([call]), none)).proxy_turns;
		expect(turn).toMatchObject({
			completion_token_ids: [],
			completion_tokens: ["a", "b"],
			per_token_logps: [-1, -2],
		});
	});
});

describe("error", () => {
	const failure = {
		boundary: "sandbox",
		code: "create_failed",
		message: "no room",
		retryable: true,
	} as const;

	test.each([
		[{ outcome: "completed", reward: 0 }, null],
		[{ outcome: "failed", failure }, "sandbox/create_failed: no room"],
		[{ outcome: "timeout" }, "the agent ran out of time"],
		[{ outcome: "aborted" }, "the rollout was aborted"],
		[{ outcome: "budget" }, "the rollout used up its budget"],
		[
			{ status: "running", phase: "agent", outcome: null },
			"the rollout is not finished: running, phase agent",
		],
	] as const)("%o", async (fields, error) => {
		const result = await toResult(aRollout({ id: "ro_1", ...fields }), streamed([]), none);
		expect(RolloutResult.parse(result).error).toBe(error);
	});
});
