import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { ModelCall } from "../../src/model/call.ts";
import { createApp } from "../../src/server/app.ts";
import { completedCall } from "../fixtures/calls.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { clientOf, problemOf, request } from "./caller.ts";

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;
let client: Client;
let ids: string[];
let groupId: string;

const said = (content: string, overrides: Partial<ModelCall> = {}): ModelCall =>
	completedCall({
		response: { message: { role: "assistant", content }, finishReason: "stop" },
		...overrides,
	});

beforeAll(async () => {
	paddock = await openIdlePaddock();
	app = createApp(paddock);
	client = clientOf(app);
	const { rollouts, group } = await client.submit(request({ id: "four", n: 4, labels: { run: "night" } }));
	ids = rollouts.map(({ id }) => id);
	groupId = group!.id;
	const toolCall = (id: string) => ({
		message: { role: "assistant", tool_calls: [{ id, function: { name: "bash", arguments: "{}" } }] },
		finishReason: "tool_calls",
	});
	const first = (id: string) => completedCall({ response: toolCall(id) });
	// As an engine does it: what was asked before, and one more answer.
	const next = (content: string) =>
		said(content, {
			...{ index: 1, promptIds: [1, 2, 3, 4, 5, 6], logprobs: [-1, -1] },
			usage: { promptTokens: 6, completionTokens: 2 },
		});
	await paddock.complete(ids[0]!, 1, [first("a"), next("done")]);
	await paddock.complete(ids[1]!, 0, [first("b"), next("gave up")]);
	await paddock.complete(ids[2]!, 1, [first("c"), next("done")]);
	await client.submit(request({ id: "other" }));
});
afterAll(() => paddock[Symbol.asyncDispose]());

test("lists are filtered and sorted over HTTP, and what no filter could mean is refused", async () => {
	const found = async (query: Parameters<Client["list"]>[0]) =>
		(await client.list(query)).items.map(({ id }) => id);
	expect(await found({ min_reward: 0.5, order: "oldest" })).toEqual([ids[0], ids[2]]);
	expect(await found({ order: "lowest-reward" })).toEqual([ids[1], ids[0], ids[2]]);
	expect(await found({ text: "FOU night", model: "NOOP", status: "queued" })).toEqual([ids[3]]);
	expect(await found({ model: "gpt" })).toEqual([]);
	expect(await found({ since: Date.now() + 60_000 })).toEqual([]);
	const byDate = await app.request("/api/v1/rollouts?since=2020-01-01T00:00:00Z&until=2021-01-01");
	expect(((await byDate.json()) as { items: unknown[] }).items).toEqual([]);
	for (const query of ["since=yesterday", "min_reward=much", "order=best", "min_reward=Infinity"])
		expect(await problemOf(app.request(`/api/v1/rollouts?${query}`))).toMatchObject({ status: 422 });
});

test("statistics say how finished rollouts went", async () => {
	const { counted, buckets, models } = await client.statistics({ buckets: 1 });
	expect(counted).toBe(3);
	expect(buckets[0]).toMatchObject({ done: 3, solved: 2, outcomes: { completed: 3 }, calls: 6 });
	expect(models).toEqual([{ model: "noop", count: 3 }]);
	expect((await client.statistics({ max_reward: 0 })).counted).toBe(1);
	expect((await client.statistics({ ended_since: Date.now() + 60_000 })).counted).toBe(0);
});

test("a group's figures say where members part, whatever ids their tool calls have", async () => {
	const { items } = await client.groupFigures(groupId);
	expect(items.map((item) => item.differsAt)).toEqual([null, 1, null, 0]);
	expect(items[1]).toMatchObject({ id: ids[1], reward: 0, calls: 2, length: 4, meanLogprob: -0.6875 });
	expect(items[0]!.advantage).toBeCloseTo(Math.SQRT1_2);
	expect(items[3]).toMatchObject({ advantage: null, calls: 0, meanLogprob: null });
	expect(await problemOf(app.request("/api/v1/groups/gr_none/figures"))).toMatchObject({ status: 404 });
});

test("the example tasks are ready to be sent", async () => {
	const { items } = await client.examples();
	expect(items.map(({ id }) => id)).toContain("fizzbuzz");
	for (const task of items) expect(task.instruction).not.toBe("");
});

test.each(["jsonl", "trl", "atif", "messages", "openenv", "parquet"] as const)(
	"an export over HTTP as %s is what the command line writes",
	async (format) => {
		const folder = await mkdtemp(join(tmpdir(), "paddock-export-"));
		const file = join(folder, "rows");
		await paddock.export({ groupId }, format, file);
		const bytes = Buffer.from(
			await new Response(await client.export({ format, group_id: groupId })).arrayBuffer(),
		);
		expect(bytes.equals(await readFile(file))).toBe(true);
		expect(bytes.length).toBeGreaterThan(100);
		await rm(folder, { recursive: true });
	},
);

test("an export takes named rollouts, and breaks off rather than end early", async () => {
	const rows = async (query: Parameters<Client["export"]>[0]) =>
		(await new Response(await client.export(query)).text()).trim().split("\n").filter(Boolean);
	expect(await rows({ ids: ids[1]! })).toHaveLength(1);
	expect(await rows({ min_reward: 1 })).toHaveLength(2);
	const readTrace = paddock.store.readTrace.bind(paddock.store);
	try {
		paddock.store.readTrace = () => {
			throw new Error("the disk is gone");
		};
		await expect(rows({ ids: ids[1]! })).rejects.toThrow();
	} finally {
		paddock.store.readTrace = readTrace;
	}
});
