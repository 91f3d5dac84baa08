import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { RolloutEvent } from "../../src/model/event.ts";
import { type Daemon, freePort, startDaemon } from "../fixtures/daemon.ts";
import { boxesOf, remainsOf } from "../fixtures/evidence.ts";
import { example } from "../fixtures/paddock.ts";
import { requirePostgres, startPostgres } from "../fixtures/postgres.ts";

const ROLLOUTS = 12;
const KILLS = Number(process.env.PADDOCK_TEST_KILLS ?? 20);
const TASKS = ["fizzbuzz", "csv-mean", "partial-score", "shell-script"];

let home: string;
beforeEach(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-kill-"));
});
afterEach(async () => await rm(home, { recursive: true, force: true }));

describe("kill -9 at any moment", () => {
	test("of the server: every rollout ends once, with its right reward, and nothing is left of any box", async () => {
		const port = await freePort();
		const env = { PADDOCK_HOME: home };
		const serve = () => startDaemon(["serve", "--port", String(port), "--concurrency", "2"], env);
		await using running = new AsyncDisposableStack();
		let server = await serve();
		running.defer(() => server[Symbol.asyncDispose]());
		const wreckage = new Wreckage();
		const client = createClient({ baseUrl: `http://127.0.0.1:${port}` });
		const ids = await submitMixed(client);
		for (let kill = 0; kill < KILLS; kill++) {
			await delay(300 + Math.random() * 5_000);
			await server.kill9();
			await wreckage.inspect(server.pid);
			server = await serve();
		}
		await expectAllRight(client, ids);
		await server[Symbol.asyncDispose]();
		expect(wreckage.atDeath).not.toEqual([]);
		expect(await wreckage.now()).toEqual([]);
		expect(await boxesOf(server.pid)).toEqual([]);
	}, 900_000);

	test("of workers on PostgreSQL: another takes over, and every rollout ends once", async (context) => {
		requirePostgres(context);
		await using postgres = await startPostgres();
		const port = await freePort();
		const env = { PADDOCK_HOME: home, PADDOCK_DATABASE_URL: postgres.url };
		await using _server = await startDaemon(["serve", "--port", String(port), "--no-worker"], env);
		const client = createClient({ baseUrl: `http://127.0.0.1:${port}` });
		const work = () => startDaemon(["worker", "--concurrency", "1"], env);
		const workers: Daemon[] = [await work(), await work()];
		await using running = new AsyncDisposableStack();
		running.defer(async () => {
			for (const worker of workers) await worker[Symbol.asyncDispose]();
		});
		const wreckage = new Wreckage();
		const killedAt = new Map<number, number>();
		const ids = await submitMixed(client);
		for (let kill = 0; kill < KILLS; kill++) {
			await delay(1_000 + Math.random() * 6_000);
			const victim = kill % workers.length;
			await workers[victim]!.kill9();
			killedAt.set(workers[victim]!.pid, Date.now());
			await wreckage.inspect(workers[victim]!.pid);
			workers[victim] = await work();
		}
		await expectAllRight(client, ids);
		const gaps = await Promise.all(ids.map(async (id) => takeovers(await allEvents(client, id), killedAt)));
		expect(gaps.flat().length).toBeGreaterThan(0);
		const shown = gaps.flat().sort((a, b) => a - b);
		const all = shown.map((seconds) => seconds.toFixed(1)).join(", ");
		console.log(`Taken over ${all} s after the kill: ${shown.at(-1)!.toFixed(1)} s at most, 30 s allowed.`);
		for (const worker of workers) await worker[Symbol.asyncDispose]();
		expect(wreckage.atDeath).not.toEqual([]);
		expect(await wreckage.now()).toEqual([]);
	}, 900_000);
});

/** What dead processes left of their boxes at the moment of their death, and what is left of the same boxes later. */
class Wreckage {
	readonly #boxes: string[] = [];
	readonly atDeath: string[] = [];

	async inspect(pid: number): Promise<void> {
		const boxes = await boxesOf(pid);
		this.#boxes.push(...boxes);
		this.atDeath.push(...(await remainsOf(boxes)));
	}

	now(): Promise<string[]> {
		return remainsOf(this.#boxes);
	}
}

async function submitMixed(client: Client): Promise<string[]> {
	const ids: string[] = [];
	for (let index = 0; index < ROLLOUTS; index++) {
		const task = await example(TASKS[index % TASKS.length]!);
		const { rollouts } = await client.submit({
			task,
			endpoint: { type: "policy", policy: "oracle" },
			maxAttempts: 100,
		});
		ids.push(rollouts[0]!.id);
	}
	return ids;
}

async function expectAllRight(client: Client, ids: string[]): Promise<void> {
	const done = await Promise.all(ids.map((id) => client.wait(id)));
	expect(done.map((rollout) => [rollout.outcome, rollout.reward])).toEqual(ids.map(() => ["completed", 1]));
	for (const id of ids) {
		const events = await allEvents(client, id);
		expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
		expect(events.filter((event) => event.type === "rollout-end")).toHaveLength(1);
		expect(events.at(-1)!.type).toBe("rollout-end");
	}
}

async function allEvents(client: Client, id: string): Promise<RolloutEvent[]> {
	return await Array.fromAsync(client.events(id));
}

/** Seconds between the death of an attempt's worker and the start of the next attempt. */
function takeovers(events: RolloutEvent[], killedAt: Map<number, number>): number[] {
	const starts = events.filter((event) => event.type === "rollout-start");
	return starts.slice(1).flatMap((next, index) => {
		const died = killedAt.get(Number(/-(\d+)$/.exec(starts[index]!.worker)?.[1]));
		return died === undefined ? [] : [(next.at - died) / 1000];
	});
}
