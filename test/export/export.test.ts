import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { DuckDBInstance } from "@duckdb/node-api";
import { test as base, describe, expect } from "vitest";
import { ChatRow } from "../../src/export/chat-rows.ts";
import {
	EXPORT_FORMATS,
	type ExportFormat,
	type ExportOptions,
	exportRollouts,
} from "../../src/export/export.ts";
import { SampleRow, TrlRow } from "../../src/export/rows.ts";
import type { ModelCall } from "../../src/model/call.ts";
import { AtifTrajectory } from "./atif-rules.ts";
import { aCall, NEUTRAL } from "./calls.ts";
import { aRollout, Shelf } from "./shelf.ts";
import { assistant, system, ToyEngine, tool, user } from "./toy-engine.ts";

const test = base.extend<{ folder: string }>({
	folder: async ({ task: _ }, use) => {
		const folder = await mkdtemp(join(tmpdir(), "paddock-test-export-"));
		await use(folder);
		await rm(folder, { recursive: true });
	},
});

const START = [system("be helpful"), user("fix it")];

/** Two turns with a tool result between them. */
function twoTurns(word: string): ModelCall[] {
	const engine = new ToyEngine();
	engine.call(START, assistant(`read ${word}`));
	engine.call([...START, assistant(`read ${word}`), tool("contents")], assistant("done"));
	return engine.calls;
}

/** A group of three (rewards 1, 0, none), one rollout alone, one that proves nothing. */
async function shelf(): Promise<Shelf> {
	const all = new Shelf();
	await all.put(aRollout({ id: "ro_1", groupId: "gr_1", reward: 1 }), twoTurns("a"));
	await all.put(aRollout({ id: "ro_2", groupId: "gr_1", reward: 0 }), twoTurns("b"));
	await all.put(aRollout({ id: "ro_3", groupId: "gr_1", reward: null }), twoTurns("c"));
	await all.put(aRollout({ id: "ro_4", reward: 0.25 }), twoTurns("d"));
	await all.put(aRollout({ id: "ro_5", reward: 1 }), [
		aCall({ index: 0, dialect: "openai", usage: { promptTokens: 3, completionTokens: 1 } }),
	]);
	await all.put(aRollout({ id: "ro_6", status: "running", outcome: null, reward: null }), twoTurns("e"));
	return all;
}

async function lines(store: Shelf, format: ExportFormat, options: ExportOptions = {}) {
	const stream = new PassThrough();
	const written = text(stream);
	const report = await exportRollouts(store, {}, format, stream, options);
	stream.end();
	const rows = (await written)
		.split("\n")
		.filter((line) => line !== "")
		.map((line) => JSON.parse(line));
	return { report, rows };
}

describe("jsonl", () => {
	test("has one line for each sample, every field as documented", async () => {
		const { rows, report } = await lines(await shelf(), "jsonl");
		const [one, two] = twoTurns("a");
		for (const row of rows) SampleRow.parse(row);
		expect(rows.map((row) => row.rollout_id)).toEqual(["ro_1", "ro_2", "ro_4"]);
		expect(rows[0]).toEqual({
			rollout_id: "ro_1",
			task_id: "echo",
			group_id: "gr_1",
			attempt: 1,
			outcome: "completed",
			reward: 1,
			advantage: 1,
			sample: 0,
			samples: 1,
			rollout_trained_tokens: 5,
			purpose: "main",
			session_id: "ses_main",
			parent_session_id: null,
			calls: [0, 1],
			prompt_length: one!.promptIds.length,
			token_ids: [...two!.promptIds, ...two!.completionIds],
			loss_mask: [...one!.promptIds.map(() => 0), 1, 1, 1, 0, 0, 0, 0, 1, 1],
			logprobs: [...one!.promptIds.map(() => 0), -0.25, -0.5, -0.75, 0, 0, 0, 0, -0.25, -0.5],
			finish_reason: "stop",
			model: "scripted",
			engine: "vllm 0.26.1",
			weight_versions: [],
			break: null,
			trainable: true,
			untrainable_reasons: [],
		});
		expect(report).toEqual({
			rollouts: 3,
			rows: 3,
			skipped: 2,
			skips: [
				{ rolloutId: "ro_3", reason: "it has no reward" },
				{ rolloutId: "ro_5", reason: expect.stringContaining("no token ids (openai)") },
			],
		});
	});

	test("gives group-relative advantages; without reward or group there is none, and each group is read once", async () => {
		const store = await shelf();
		const { rows } = await lines(store, "jsonl", { includeUntrainable: true });
		expect(rows.map((row) => row.advantage)).toEqual([1, -1, null, null]);
		expect(store.groupReads).toBe(1);
	});

	test("a group whose rewards are all alike has advantage 0", async () => {
		const store = new Shelf();
		for (const id of ["ro_1", "ro_2"])
			await store.put(aRollout({ id, groupId: "gr_1", reward: 1 }), twoTurns(id));
		expect((await lines(store, "jsonl")).rows.map((row) => row.advantage)).toEqual([0, 0]);
	});

	test("untrainable samples come only when asked for, and say so", async () => {
		const store = await new Shelf().put(
			aRollout({ id: "ro_1" }),
			twoTurns("a").map((call) => ({ ...call, usage: null })),
		);
		expect((await lines(store, "jsonl")).rows).toEqual([]);
		const { rows } = await lines(store, "jsonl", { includeUntrainable: true });
		expect(rows[0]).toMatchObject({
			trainable: false,
			untrainable_reasons: [expect.stringContaining("no usage")],
		});
	});

	test("only rollouts with enough reward, when asked", async () => {
		const { rows } = await lines(await shelf(), "jsonl", { minReward: 0.25 });
		expect(rows.map((row) => row.rollout_id)).toEqual(["ro_1", "ro_4"]);
	});

	test("a store of many pages is exported whole", async () => {
		const store = new Shelf();
		for (let at = 0; at < 250; at++) await store.put(aRollout({ id: `ro_${at}` }), twoTurns("a"));
		expect((await lines(store, "jsonl")).rows).toHaveLength(250);
	});
});

test("trl rows split at the first sampled token, mask and logprobs run over the completion", async () => {
	const { rows, report } = await lines(await shelf(), "trl");
	const [one, two] = twoTurns("a");
	for (const row of rows) {
		TrlRow.parse(row);
		expect(row.env_mask).toHaveLength(row.completion_ids.length);
		expect(row.logprobs).toHaveLength(row.completion_ids.length);
	}
	expect(rows[0]).toEqual({
		prompt_ids: one!.promptIds,
		completion_ids: [...two!.promptIds, ...two!.completionIds].slice(one!.promptIds.length),
		logprobs: [-0.25, -0.5, -0.75, 0, 0, 0, 0, -0.25, -0.5],
		env_mask: [1, 1, 1, 0, 0, 0, 0, 1, 1],
		reward: 1,
		advantage: 1,
		rollout_id: "ro_1",
		task_id: "echo",
		group_id: "gr_1",
	});
	expect(report.skips).toContainEqual({ rolloutId: "ro_3", reason: "it has no reward" });
});

describe("messages", () => {
	test("are the whole conversation with its last reply", async () => {
		const { rows } = await lines(await shelf(), "messages");
		for (const row of rows) ChatRow.parse(row);
		expect(rows[0]).toEqual({
			rollout_id: "ro_1",
			task_id: "echo",
			group_id: "gr_1",
			reward: 1,
			advantage: 1,
			purpose: "main",
			session_id: "ses_main",
			protocol: "chat",
			model: "scripted",
			view: "agent",
			messages: [...START, assistant("read a"), tool("contents"), assistant("done")],
			tools: [{ name: "bash" }],
		});
	});

	test("can be had as the agent kept them, or as the model saw and said them", async () => {
		const called = (name: string, args: string) => ({
			role: "assistant",
			content: "I look.\n\n",
			tool_calls: [{ id: "c1", type: "function", function: { name, arguments: args } }],
		});
		const [said, believed] = [called("look", '{"at":  "he'), called("invalid", '{"tool":"look"}')];
		const answer = { role: "tool", tool_call_id: "c1", content: "no such tool" };
		const request = (messages: unknown[]) => ({ messages, tools: [], params: { ...NEUTRAL }, patch: {} });
		const calls = [
			aCall({ index: 0, request: request(START), response: { message: said, finishReason: "tool_calls" } }),
			aCall({
				index: 1,
				request: request([...START, believed, answer]),
				response: { message: assistant("again"), finishReason: "stop" },
				continuity: { stitched: true, parent: 0, how: "rewritten", added: 3 },
			}),
			aCall({
				index: 2,
				request: request([...START, believed, answer, assistant("again"), user("go on")]),
				response: { message: assistant("done"), finishReason: "stop" },
				continuity: { stitched: true, parent: 1, how: "exact", added: 3 },
			}),
		];
		const store = await new Shelf().put(aRollout({ id: "ro_1" }), calls);
		const rest = [answer, assistant("again"), user("go on"), assistant("done")];
		const agents = await lines(store, "messages");
		expect(agents.rows[0]).toMatchObject({ view: "agent", messages: [...START, believed, ...rest] });
		const models = await lines(store, "messages", { view: "model" });
		expect(models.rows[0]).toMatchObject({ view: "model", messages: [...START, said, ...rest] });
	});

	test("need no tokens: every rollout with calls has a row", async () => {
		const { rows } = await lines(await shelf(), "messages");
		expect(rows.map((row) => row.rollout_id)).toEqual(["ro_1", "ro_2", "ro_3", "ro_4", "ro_5"]);
	});

	test("after a compaction are two conversations; titles are none", async () => {
		const engine = new ToyEngine();
		engine.call([system("You are a title generator")], assistant("T"), { purpose: "title" });
		engine.call([...START, assistant("a"), tool("b")], assistant("c"));
		engine.call([system("summarise")], assistant("s"), { purpose: "compaction" });
		engine.call([START[0]!, user("so far?"), assistant("s"), user("go on")], assistant("done"));
		const { rows } = await lines(await new Shelf().put(aRollout({ id: "ro_1" }), engine.calls), "messages");
		expect(rows.map((row) => row.messages.at(-1).content)).toEqual(["c", "done"]);
	});
});

test("rollouts of other weights than the wanted ones are left out, saying so", async () => {
	const one = new Shelf();
	const calls = twoTurns("a").map((call) => ({ ...call, weightVersions: ["11"] }));
	await one.put(aRollout({ id: "ro_1", reward: 1 }), calls);
	expect((await lines(one, "jsonl", { weights: ["11", "12"] })).report.rollouts).toBe(1);
	expect((await lines(one, "jsonl", { weights: ["12"] })).report.skips).toEqual([
		{ rolloutId: "ro_1", reason: "it was sampled by weights 11" },
	]);
});

describe("openenv", () => {
	test("has one proxy_trace record for each call, with everything a harness worker reads", async () => {
		const { rows } = await lines(await shelf(), "openenv");
		const [, two] = twoTurns("a");
		expect(rows[1]).toEqual({
			rollout_id: "ro_1",
			task_id: "echo",
			reward: 1,
			turn: 1,
			purpose: "main",
			session_id: "ses_main",
			parent_session_id: null,
			complete: true,
			superseded: false,
			request: { ...NEUTRAL, messages: two!.request.messages, tools: [{ name: "bash" }] },
			response: {
				id: "chatcmpl-1-1",
				object: "chat.completion",
				created: 1_700_000_001,
				model: "scripted",
				choices: [{ index: 0, message: assistant("done"), finish_reason: "stop" }],
				usage: {
					prompt_tokens: two!.promptIds.length,
					completion_tokens: 2,
					total_tokens: two!.promptIds.length + 2,
				},
			},
			logprobs: [
				{ token: "done ", logprob: -0.25 },
				{ token: " ", logprob: -0.5 },
			],
			prompt_token_ids: two!.promptIds,
			completion_tokens: ["done ", " "],
			completion_token_ids: two!.completionIds,
			per_token_logps: [-0.25, -0.5],
			finish_reason: "stop",
			latency_s: 0.12,
			timestamp: 1_700_000_001,
		});
	});

	test("a call that failed upstream says how", async () => {
		const failed = aCall({
			index: 0,
			complete: false,
			usage: null,
			response: { message: null, finishReason: null },
			upstreamStatus: 500,
			error: { code: "upstream_error", message: "boom" },
		});
		const { rows } = await lines(await new Shelf().put(aRollout({ id: "ro_1" }), [failed]), "openenv");
		expect(rows[0].response).toEqual({
			choices: [],
			usage: null,
			upstream_status: 500,
			upstream_error: { code: "upstream_error", message: "boom" },
		});
	});
});

test("atif has one valid document on each line", async () => {
	const { rows } = await lines(await shelf(), "atif");
	expect(rows.map((row) => AtifTrajectory.parse(row).extra!.rollout_id)).toEqual([
		"ro_1",
		"ro_2",
		"ro_3",
		"ro_4",
		"ro_5",
	]);
});

describe("parquet", () => {
	async function query(file: string, sql: string) {
		const instance = await DuckDBInstance.create(":memory:");
		const connection = await instance.connect();
		const rows = (await connection.runAndReadAll(sql.replace("FILE", `'${file}'`))).getRowObjectsJson();
		connection.closeSync();
		instance.closeSync();
		return rows;
	}

	test("holds what jsonl holds, with list columns", async ({ folder }) => {
		const file = join(folder, "samples.parquet");
		const report = await exportRollouts(await shelf(), {}, "parquet", file);
		const { rows } = await lines(await shelf(), "jsonl");
		expect(report.rows).toBe(3);
		const stored = await query(
			file,
			"SELECT * REPLACE (rollout_trained_tokens::INTEGER AS rollout_trained_tokens) FROM FILE",
		);
		expect(stored).toEqual(rows);
		const types = await query(
			file,
			"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM FILE) WHERE column_type LIKE '%[]'",
		);
		expect(Object.fromEntries(types.map((row) => [row.column_name, row.column_type]))).toEqual({
			calls: "INTEGER[]",
			token_ids: "INTEGER[]",
			loss_mask: "UTINYINT[]",
			logprobs: "FLOAT[]",
			weight_versions: "VARCHAR[]",
			untrainable_reasons: "VARCHAR[]",
		});
	});

	test("keeps odd text and breaks as they are, over many batches, in order", async ({ folder }) => {
		const engine = new ToyEngine();
		engine.call(START, assistant("ab"), {
			sampled: ["a", "b"],
			model: `it's "odd", [x] \\ 🦊`,
			weightVersions: ['v"1, 2'],
		});
		engine.call([...START, assistant("ab"), tool("ok")], assistant("done"), {
			model: `it's "odd", [x] \\ 🦊`,
		});
		const store = new Shelf();
		for (let at = 0; at < 1100; at++)
			await store.put(aRollout({ id: `ro_${String(at).padStart(4, "0")}` }), engine.calls);
		const file = join(folder, "samples.parquet");
		await exportRollouts(store, {}, "parquet", file);
		const rows = await query(file, "SELECT rollout_id, model, weight_versions, break FROM FILE");
		expect(rows).toHaveLength(2200);
		expect(rows.map((row) => row.rollout_id)).toEqual(
			Array.from({ length: 2200 }, (_, at) => `ro_${String(at >> 1).padStart(4, "0")}`),
		);
		expect(rows[0]).toMatchObject({
			model: `it's "odd", [x] \\ 🦊`,
			weight_versions: ['v"1, 2'],
			break: null,
		});
		expect(rows[1]!.break).toEqual({
			reason: "retokenised",
			position: engine.calls[0]!.promptIds.length,
			call: 1,
			previousCall: 0,
		});
	});

	test("of nothing is a file with the columns and no rows, also through a stream", async ({ folder }) => {
		const file = join(folder, "empty.parquet");
		const stream = new PassThrough();
		const bytes = Array.fromAsync(stream);
		await exportRollouts(new Shelf(), {}, "parquet", stream);
		stream.end();
		await writeFile(file, Buffer.concat(await bytes));
		expect(await query(file, "SELECT count(*)::INTEGER AS n FROM FILE")).toEqual([{ n: 0 }]);
	});
});

describe("files and streams", () => {
	test.for([...EXPORT_FORMATS])(
		"a %s file appears whole, and nothing else stays behind",
		async (format, { folder }) => {
			await exportRollouts(await shelf(), {}, format, join(folder, "out"));
			expect(await readdir(folder)).toEqual(["out"]);
			expect((await readFile(join(folder, "out"))).length).toBeGreaterThan(100);
		},
	);

	test("an export that fails leaves no file", async ({ folder }) => {
		const store = await shelf();
		store.group = async () => Promise.reject(new Error("the store went away"));
		await expect(exportRollouts(store, {}, "jsonl", join(folder, "out"))).rejects.toThrow(
			"the store went away",
		);
		expect(await readdir(folder)).toEqual([]);
	});

	test("a folder that does not exist is refused before any work", async ({ folder }) => {
		for (const format of EXPORT_FORMATS) {
			const file = join(folder, "no", "such", "file");
			await expect(exportRollouts(new Shelf(), {}, format, file)).rejects.toMatchObject({
				code: "export_destination",
			});
		}
	});

	test("a reader that goes away ends the export", async () => {
		const gone = new Writable({ highWaterMark: 1, write: (_chunk, _encoding, _done) => void gone.destroy() });
		await expect(exportRollouts(await shelf(), {}, "jsonl", gone)).rejects.toThrow("went away");
	});

	test("an abort ends the export", async () => {
		const signal = AbortSignal.abort();
		await expect(lines(await shelf(), "jsonl", { signal })).rejects.toThrow("aborted");
	});

	test("an unknown format is refused in words", async () => {
		await expect(exportRollouts(new Shelf(), {}, "csv" as ExportFormat, new PassThrough())).rejects.toThrow(
			"no such format: csv; there are jsonl, parquet",
		);
	});
});
