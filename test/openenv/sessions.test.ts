import { describe, expect, onTestFinished, vi } from "vitest";
import { EnvironmentPool } from "../../src/openenv/pool.ts";
import { serveDoors } from "./doors.ts";
import { callFrame, hanging, task, test } from "./fixtures.ts";
import { openPlayingPaddock, until } from "./playing-paddock.ts";
import { RawClient, resultOf } from "./raw-client.ts";

describe("a client that speaks while its rollout runs has given up on it", () => {
	test("the next call gets its own answer, the old one none, and the rollout ends as aborted", async ({
		client,
		paddock,
	}) => {
		client.send(callFrame("run_rollout", hanging));
		const id = await paddock.working;
		expect(await client.ask({ type: "state" })).toMatchObject({ type: "state" });
		expect((await until(paddock.store, id, ({ status }) => status === "done")).outcome).toBe("aborted");
		const second = await client.ask(callFrame("run_rollout", { ...task, task_id: "second" }));
		expect(resultOf(second)).toMatchObject({ task_id: "second", reward: 1 });
		expect(client.unread).toBe(0);
	});

	describe("told to detach", () => {
		test.override({ options: { env: { PADDOCK_ON_DISCONNECT: "detach" } } });
		test("the rollout goes on and is fetched by its id", async ({ client, paddock }) => {
			client.send(callFrame("run_rollout", hanging));
			const rollout_id = await paddock.working;
			const state = await client.ask(callFrame("get_state", { rollout_id }));
			expect(resultOf(state)).toMatchObject({ status: "running" });
			await paddock.abort({ id: rollout_id });
			const result = await client.ask(callFrame("finalize_rollout", { rollout_id }));
			expect(resultOf(result)).toMatchObject({ rollout_id, outcome: "aborted" });
			expect(client.unread).toBe(0);
		});
	});

	test("giving up on a wait leaves the rollout alone", async ({ client, paddock }) => {
		const { rollout_id } = resultOf(await client.ask(callFrame("start_rollout", hanging)));
		client.send(callFrame("finalize_rollout", { rollout_id, wait_s: 300 }));
		const state = await client.ask(callFrame("get_state", { rollout_id }));
		expect(resultOf(state)).toMatchObject({ rollout_id });
		expect((await paddock.store.get(String(rollout_id)))?.abortRequested).toBe(false);
	});

	test("a JSON-RPC call inside a frame is given up on in the same way", async ({ client, paddock }) => {
		const params = { name: "run_rollout", arguments: hanging };
		client.send({ type: "mcp", data: { jsonrpc: "2.0", id: 1, method: "tools/call", params } });
		const id = await paddock.working;
		expect(await client.ask({ type: "state" })).toMatchObject({ type: "state" });
		await until(paddock.store, id, ({ abortRequested }) => abortRequested);
		expect(client.unread).toBe(0);
	});
});

test("short calls sent in one go are all answered, in order", async ({ client }) => {
	client.send({ type: "state" });
	client.send({ type: "reset" });
	client.send(callFrame("get_state", { rollout_id: "x" }));
	client.send({ type: "state" });
	expect([await client.next(), await client.next(), await client.next(), await client.next()]).toMatchObject([
		{ type: "state", data: { step_count: 0 } },
		{ type: "observation" },
		{ type: "observation", data: { observation: { tool_name: "get_state" } } },
		{ type: "state", data: { step_count: 1 } },
	]);
});

test("a client that vanishes mid-call frees its place and its rollout ends as aborted", async ({
	client,
	doors,
	paddock,
}) => {
	client.send(callFrame("run_rollout", hanging));
	const id = await paddock.working;
	expect(doors.openEnv.pool.active).toBe(1);
	client.socket.terminate();
	expect((await until(paddock.store, id, ({ status }) => status === "done")).outcome).toBe("aborted");
	expect(doors.openEnv.pool.active).toBe(0);
});

test("a server that closes leaves the rollouts of its clients to the next one", async ({ paddock }) => {
	const doors = await serveDoors(paddock);
	await using client = await RawClient.connect(`${doors.url}/ws`);
	client.send(callFrame("run_rollout", hanging));
	const id = await paddock.working;
	const closed = client.closed();
	await doors[Symbol.asyncDispose]();
	expect(await closed).toBe(1001);
	expect(await paddock.store.get(id)).toMatchObject({ status: "running", abortRequested: false });
});

test("pings are answered while a rollout runs", async ({ client, paddock }) => {
	client.send(callFrame("run_rollout", hanging));
	await paddock.working;
	client.socket.ping("still there?");
	const data = await new Promise<Buffer>((resolve) => client.socket.once("pong", resolve));
	expect(data.toString()).toBe("still there?");
});

test("two clients at once have their own episodes and answers", async ({ client, doors }) => {
	await using other = await RawClient.connect(`${doors.url}/ws`);
	const [first, second] = await Promise.all([
		client.ask(callFrame("run_rollout", { ...task, task_id: "a" })),
		other.ask(callFrame("run_rollout", { ...task, task_id: "b" })),
	]);
	expect([resultOf(first).task_id, resultOf(second).task_id]).toEqual(["a", "b"]);
	const [mine, theirs] = [await client.ask({ type: "state" }), await other.ask({ type: "state" })];
	expect(mine).not.toEqual(theirs);
});

describe("with places for two", () => {
	test.override({ options: { env: { MAX_CONCURRENT_ENVS: "2" } } });

	test("the third hears on its first call that there is none", async ({ client, doors }) => {
		await using second = await RawClient.connect(`${doors.url}/ws`);
		await using third = await RawClient.connect(`${doors.url}/ws`);
		const closed = third.closed();
		expect(await third.ask({ type: "reset" })).toEqual({
			type: "error",
			data: {
				message: "Server at capacity: 2/2 sessions active. Cannot accept new connections.",
				code: "CAPACITY_REACHED",
				active_sessions: 2,
				max_sessions: 2,
			},
		});
		expect(await closed).toBe(1000);
		expect(await client.ask({ type: "state" })).toMatchObject({ type: "state" });
		expect(await second.ask({ type: "state" })).toMatchObject({ type: "state" });
	});

	test("a place that came free before the first call is taken", async ({ client, doors }) => {
		await using second = await RawClient.connect(`${doors.url}/ws`);
		await using third = await RawClient.connect(`${doors.url}/ws`);
		const closed = client.closed();
		client.send({ type: "close" });
		await closed;
		expect(await third.ask({ type: "state" })).toMatchObject({ type: "state" });
		expect(await second.ask({ type: "state" })).toMatchObject({ type: "state" });
	});

	test("sessions of JSON-RPC share the places", async ({ client, doors }) => {
		const create = () =>
			fetch(`${doors.url}/mcp`, {
				method: "POST",
				body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "openenv/session/create" }),
			}).then((reply) => reply.json() as Promise<Record<string, unknown>>);
		expect(await create()).toMatchObject({ result: { session_id: expect.any(String) } });
		expect(await create()).toMatchObject({
			error: { code: -32000, data: { active_sessions: 2, max_sessions: 2 } },
		});
		expect(await client.ask({ type: "state" })).toMatchObject({ type: "state" });
	});
});

describe("an idle session", () => {
	const settings = { maxSessions: 9, onDisconnect: "abort", idleTimeoutMs: 1_000 } as const;

	test("loses its place", () => {
		using pool = new EnvironmentPool(new Map(), settings);
		const idle: string[] = [];
		pool.open(() => idle.push("first"));
		pool.reap(Date.now() + 500);
		expect(idle).toEqual([]);
		pool.reap(Date.now() + 2_000);
		expect(idle).toEqual(["first"]);
		expect(pool.active).toBe(0);
	});

	test("over JSON-RPC leaves after an hour even without a limit", () => {
		using pool = new EnvironmentPool(new Map(), { ...settings, idleTimeoutMs: null });
		pool.open();
		pool.open(() => {});
		pool.reap(Date.now() + 3_700_000);
		expect(pool.active).toBe(1);
	});
});

test("a peer that answers nothing for long is let go", async ({ paddock }) => {
	await using doors = await serveDoors(paddock, { sockets: { pingEveryMs: 20, silenceMs: 60 } });
	await using client = await RawClient.connect(`${doors.url}/ws`, { autoPong: false });
	expect(await client.closed()).toBe(1006);
});

test("bad settings are refused with their name", async () => {
	await using paddock = await openPlayingPaddock({ env: { PADDOCK_ON_DISCONNECT: "maybe" } });
	await expect(serveDoors(paddock)).rejects.toThrow(/PADDOCK_ON_DISCONNECT/);
});

describe("a client that asks without listening", () => {
	test("has every frame answered in order, however many and large they are", async ({ client }) => {
		const padding = "x".repeat(1024 * 1024);
		for (let i = 0; i < 80; i += 1) client.send({ type: "reset", data: { episode_id: `e${i}`, padding } });
		for (let i = 0; i < 80; i += 1) expect(await client.next()).toMatchObject({ type: "observation" });
		expect(await client.ask({ type: "state" })).toMatchObject({ data: { episode_id: "e79" } });
	});

	test("may have 256 JSON-RPC calls under way, and is told so for the next one", async ({
		doors,
		client,
	}) => {
		const { rollout_id } = resultOf(await client.ask(callFrame("start_rollout", hanging)));
		await using rpc = await RawClient.connect(`${doors.url}/mcp`);
		const params = { name: "finalize_rollout", arguments: { rollout_id, wait_s: 300 } };
		for (let id = 0; id <= 256; id += 1) rpc.send({ jsonrpc: "2.0", id, method: "tools/call", params });
		expect(await rpc.next()).toMatchObject({ id: 256, error: { code: -32000 } });
	});
});

test.for([
	[{}, 900],
	[{ agent_timeout_s: 10 }, 900],
	[{ agent_timeout_s: 3600 }, 3900],
] as const)(
	"a step with %o waits %i s, as callers know it or as its agent may need; then its rollout ends as aborted",
	async ([given, timeoutS], { client, paddock }) => {
		const clock = holdClock(timeoutS * 1000);
		client.send(callFrame("run_rollout", { ...hanging, ...given }));
		const id = await paddock.working;
		expect(client.unread).toBe(0);
		clock.strike();
		const message = `Tool 'run_rollout' timed out after ${timeoutS} seconds`;
		const error = { error_type: "timeout", message };
		expect(await client.next()).toMatchObject({ data: { observation: { result: null, error } } });
		expect((await until(paddock.store, id, ({ status }) => status === "done")).outcome).toBe("aborted");
	},
);

/** Clocks of just so many milliseconds strike when they are told; all others are real. */
function holdClock(heldMs: number): { strike: () => void } {
	const held = new AbortController();
	const real = AbortSignal.timeout;
	const spy = vi
		.spyOn(AbortSignal, "timeout")
		.mockImplementation((ms) => (ms === heldMs ? held.signal : real(ms)));
	onTestFinished(() => spy.mockRestore());
	return { strike: () => held.abort(new DOMException("out of time", "TimeoutError")) };
}
