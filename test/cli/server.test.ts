import { expect, test } from "vitest";
import { main } from "../../src/cli/cli.ts";
import type { Paddock } from "../../src/paddock.ts";
import { ProblemError } from "../../src/server/problem.ts";
import { serve } from "../../src/server/serve.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { RecordedShell } from "./shell.ts";

const FIZZBUZZ = "examples/tasks/fizzbuzz";
const CSV_MEAN = "examples/tasks/csv-mean";

test("several tasks are one batch on the server, in the order they were named", async () => {
	await using stage = await openStage();
	const run = stage.run(FIZZBUZZ, CSV_MEAN, "-n", "2");
	await expect.poll(() => stage.queued(), { timeout: 60_000 }).toBe(4);
	expect(await stage.batches()).toMatchObject([{ size: 4 }]);
	const rollouts = (await stage.paddock.store.list({}, { limit: 10, order: "oldest" })).items;
	for (const { id, taskId } of rollouts) await stage.paddock.complete(id, taskId === "fizzbuzz" ? 1 : 0.25);
	const { code, out } = await run;
	expect(code).toBe(0);
	for (const row of [
		/fizzbuzz #1 +1\.00/,
		/fizzbuzz #2 +1\.00/,
		/csv-mean #1 +0\.25/,
		/csv-mean #2 +0\.25/,
	]) {
		expect(out).toMatch(row);
	}
	expect(groupsIn(out)).toEqual({ fizzbuzz: rollouts[0]!.groupId, "csv-mean": rollouts[2]!.groupId });
});

test("several rollouts of one task are a group, which the summary names", async () => {
	await using stage = await openStage();
	const run = stage.run(FIZZBUZZ, "-n", "2");
	await stage.completeAll(2);
	const { out } = await run;
	const { items } = await stage.paddock.store.listGroups({ limit: 10 });
	expect(groupsIn(out)).toEqual({ fizzbuzz: items[0]!.id });
});

test("one task is no batch", async () => {
	await using stage = await openStage();
	const run = stage.run(FIZZBUZZ);
	await stage.completeAll(1);
	const { code, out } = await run;
	expect(code).toBe(0);
	expect(await stage.batches()).toEqual([]);
	// The last line is an address of the console.
	const address = /Look closer: (http\S+\/web\/rollouts\/ro_\w+)\n$/.exec(out)?.[1];
	expect((await fetch(address!)).headers.get("content-type")).toContain("text/html");
});

test("what is too large for one request goes task by task", async () => {
	await using stage = await openStage(() => ({ submitBatch: () => Promise.reject(tooLarge()) }));
	const run = stage.run(FIZZBUZZ, CSV_MEAN);
	await stage.completeAll(2);
	const { code, err } = await run;
	expect(code, err).toBe(0);
});

test("a full queue is said once and waited for", async () => {
	let refusals = 0;
	await using stage = await openStage((paddock) => ({
		submit: (...args) => (++refusals <= 2 ? Promise.reject(queueFull()) : paddock.submit(...args)),
	}));
	const run = stage.run(FIZZBUZZ);
	await stage.completeAll(1);
	const { code, err } = await run;
	expect(code, err).toBe(0);
	expect(err.match(/The queue of http\S+ is full; waiting for room/g)).toHaveLength(1);
});

test("Ctrl-C while the queue is full aborts what was submitted", async () => {
	await using stage = await openStage((paddock) => ({
		submitBatch: () => Promise.reject(tooLarge()),
		submit: async (...args) =>
			(await stage.queued()) > 0 ? Promise.reject(queueFull()) : paddock.submit(...args),
	}));
	const run = stage.run(FIZZBUZZ, CSV_MEAN);
	await expect.poll(() => stage.shell.stderr.text, { timeout: 60_000 }).toContain("is full; waiting");
	process.emit("SIGINT", "SIGINT");
	const { code, err } = await run;
	expect(code).toBe(130);
	expect(err).toContain("Aborted what was submitted already: 1 rollout.");
	expect(await stage.queued()).toBe(0);
});

test("a refusal half-way is one sentence, and what was submitted is aborted", async () => {
	await using stage = await openStage((paddock) => ({
		submitBatch: () => Promise.reject(tooLarge()),
		submit: async (...args) =>
			(await stage.queued()) > 0 ? Promise.reject(refused()) : paddock.submit(...args),
	}));
	const { code, err } = await stage.run(FIZZBUZZ, CSV_MEAN);
	expect({ code, lines: err.trim().split("\n") }).toEqual({
		code: 1,
		lines: [
			"paddock: Aborted what was submitted already: 1 rollout.",
			expect.stringMatching(/^paddock: http:\S+ refused: not this one \(conflict\)\.$/),
		],
	});
	expect(await stage.queued()).toBe(0);
});

test("what cannot be aborted is named", async () => {
	await using stage = await openStage((paddock) => ({
		submitBatch: () => Promise.reject(tooLarge()),
		submit: async (...args) =>
			(await stage.queued()) > 0 ? Promise.reject(refused()) : paddock.submit(...args),
		abort: () => Promise.reject(refused()),
	}));
	const { err } = await stage.run(FIZZBUZZ, CSV_MEAN);
	const { items } = await stage.paddock.store.list({}, { limit: 10, order: "oldest" });
	expect(err).toContain(`could not be aborted: ${items[0]!.id}\n`);
});

test("a server that refuses while it is watched costs a sentence, which names what goes on there", async () => {
	await using stage = await openStage(() => ({
		follow: () => {
			throw refused();
		},
	}));
	const { code, err } = await stage.run(FIZZBUZZ);
	const { items } = await stage.paddock.store.list({}, { limit: 10, order: "oldest" });
	expect({ code, lines: err.trim().split("\n") }).toEqual({
		code: 1,
		lines: [
			expect.stringMatching(new RegExp(`^No longer watched, but not ended at http:\\S+: ${items[0]!.id}$`)),
			expect.stringMatching(/^paddock: http:\S+ refused: not this one \(conflict\)\.$/),
		],
	});
});

/** Of each task of the last table. */
const groupsIn = (out: string) =>
	Object.fromEntries([...out.matchAll(/^(\S+) .* (gr_\w+)$/gm)].map(([, task, group]) => [task, group]));

const tooLarge = () => new ProblemError(413, "submission_too_large", "send fewer at once");
const queueFull = () => new ProblemError(429, "queue_full", "come back later");
const refused = () => new ProblemError(409, "conflict", "not this one");

interface Stage extends AsyncDisposable {
	paddock: IdlePaddock;
	shell: RecordedShell;
	run(...args: string[]): Promise<{ code: number; out: string; err: string }>;
	queued(): Promise<number>;
	batches(): Promise<{ size: number }[]>;
	/** Ends rollouts as they come, until so many have ended. */
	completeAll(count: number): Promise<void>;
}

/** A real server over a Paddock in which the test plays the worker. */
async function openStage(change: (paddock: IdlePaddock) => Partial<Paddock> = () => ({})): Promise<Stage> {
	const paddock = await openIdlePaddock();
	const serving = await serve({ ...paddock, ...change(paddock) }, { host: "127.0.0.1", port: 0 });
	const shell = new RecordedShell();
	const { store } = paddock;
	const queued = async () => (await store.counts()).queued;
	return {
		paddock,
		shell,
		queued,
		async run(...args) {
			const code = await main(["run", ...args, "--policy", "noop", "--server", serving.url], shell);
			return { code, out: shell.stdout.text, err: shell.stderr.text };
		},
		batches: async () => (await store.listBatches({ limit: 10 })).items,
		async completeAll(count) {
			for (let ended = 0; ended < count; ended++) {
				await expect.poll(queued, { timeout: 60_000 }).toBeGreaterThan(0);
				const { items } = await store.list({ status: "queued" }, { limit: 1, order: "oldest" });
				await paddock.complete(items[0]!.id, 1);
			}
		},
		async [Symbol.asyncDispose]() {
			await serving[Symbol.asyncDispose]();
			await paddock[Symbol.asyncDispose]();
		},
	};
}
