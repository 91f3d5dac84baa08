import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { createApp } from "../../src/server/app.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { clientOf, problemOf, request } from "./caller.ts";

const MAX_STREAMS = 2;
const EVENTS = 2_000;

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;

beforeAll(async () => {
	paddock = await openIdlePaddock({ maxStreams: MAX_STREAMS });
	app = createApp(paddock);
});
afterAll(() => paddock[Symbol.asyncDispose]());

test("of a long log no more is read than its reader takes", async () => {
	const id = await longLog();
	const read = countReads();
	const stream = (await app.request(`/api/v1/rollouts/${id}/events?format=sse`)).body!.getReader();
	await stream.read();
	await untilQuiet(read);
	expect(read.events).toBeLessThan(EVENTS / 20);
	const first = read.events;
	for (let chunk = 0; chunk < 200; chunk += 1) await stream.read();
	expect(read.events).toBeGreaterThan(first);
	await stream.cancel();
});

test("who waits for the end reads no events, and hears of it", async () => {
	const id = await longLog();
	const read = countReads();
	const waiting = app.request(`/api/v1/rollouts/${id}/finalize?wait_s=50`, { method: "POST" });
	await untilQuiet(read);
	await paddock.store.finish(id, 1, { outcome: "completed", reward: 1, failure: null, summary: null });
	expect(await (await waiting).json()).toMatchObject({ rollout_id: id, reward: 1 });
	expect(read.events).toBe(0);
});

test.each(["events?format=sse", "calls?format=ndjson"])(
	"only so many may stream at once: %s is refused beyond, and has room again when one has gone",
	async (path) => {
		const id = await longLog();
		const url = `/api/v1/rollouts/${id}/${path}`;
		const live = `/api/v1/rollouts/${id}/events?format=sse`;
		const open = await Promise.all(Array.from({ length: MAX_STREAMS }, () => app.request(live)));
		const refused = await app.request(url);
		expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
		expect(await problemOf(refused)).toMatchObject({ status: 429, code: "too_many_streams" });
		expect((await app.request(`/api/v1/rollouts/${id}/events?limit=1`)).status).toBe(200);
		await open[0]!.body!.cancel();
		const taken = await app.request(url);
		expect(taken.status).toBe(200);
		await taken.body!.cancel();
		await open[1]!.body!.cancel();
	},
);

test("only eight exports are under way at once, whoever reads them", async () => {
	await using other = await openIdlePaddock();
	const app = createApp(other);
	const open = () => app.request("/api/v1/export?format=jsonl");
	const eight = await Promise.all(Array.from({ length: 8 }, open));
	expect(eight.map(({ status }) => status)).toEqual(Array(8).fill(200));
	expect(await problemOf(open())).toMatchObject({ status: 429, code: "too_many_streams" });
	await eight[0]!.body!.cancel();
	expect((await open()).status).toBe(200);
});

async function longLog(): Promise<string> {
	const { id } = (await clientOf(app).submit(request())).rollouts[0]!;
	await paddock.store.begin(id, "test-worker");
	const text = "x".repeat(4_000);
	await paddock.store.append(id, 1, Array(EVENTS).fill({ type: "note", text }));
	return id;
}

/** How many events the store was asked for and gave. */
function countReads(): { events: number } {
	const count = { events: 0 };
	const { store } = paddock;
	const events = store.events.bind(store);
	const spy = vi.spyOn(store, "events").mockImplementation(async (id, options) => {
		const page = await events(id, options);
		count.events += page.length;
		return page;
	});
	onTestFinished(() => spy.mockRestore());
	return count;
}

/** Until nothing more was read for a hundred turns of the loop. */
async function untilQuiet(read: { events: number }): Promise<void> {
	for (let turns = 0, last = -1; turns < 100; turns += 1) {
		if (read.events !== last) turns = 0;
		last = read.events;
		await new Promise((resolve) => setImmediate(resolve));
	}
}
