import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { main } from "../../src/cli/cli.ts";
import { stateOf } from "../../src/cli/list.ts";
import { summariseTasks } from "../../src/cli/run/task-summary.ts";
import { newRow } from "../../src/cli/terminal/progress.ts";
import { layOut } from "../../src/cli/terminal/table.ts";
import { loadConfig } from "../../src/config.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import { openPaddock } from "../../src/paddock.ts";
import { completedCall } from "../fixtures/calls.ts";
import { openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { task } from "../fixtures/script.ts";
import { Paddock } from "./paddock.ts";
import { RecordedShell } from "./shell.ts";

let place: Paddock;
beforeEach(async () => {
	place = await Paddock.open();
});
afterEach(async () => await place[Symbol.asyncDispose]());

async function ask(...argv: string[]) {
	const shell = new RecordedShell({ env: { PADDOCK_HOME: join(place.home, "data") } });
	const code = await main(argv, shell);
	return { code, out: shell.stdout.text, err: shell.stderr.text };
}

const open = () => openPaddock(loadConfig({ PADDOCK_HOME: join(place.home, "data") }, place.home));

/** Queued, as an interrupted run leaves them; nobody works here. */
async function submit(policy: string, n: number, labels = {}): Promise<string[]> {
	await using paddock = await open();
	const request = RolloutRequest.parse({ task: task(), endpoint: { type: "policy", policy }, labels });
	return (await paddock.submit(request, { n })).rollouts.map(({ id }) => id);
}

test("list shows model and group, and filters by them", async () => {
	const grouped = await submit("noop", 2);
	const [alone] = await submit("cheat-reward", 1);
	const { out } = await ask("list");
	expect(out).toMatch(/^rollout +task +model +group /);
	expect(out).toMatch(new RegExp(`^${alone} +small +policy cheat-reward +– `, "m"));
	const group = new RegExp(`^${grouped[0]} +small +policy noop +(\\S+)`, "m").exec(out)?.[1];
	const idsOf = (text: string) => text.match(/^ro_\w+/gm)?.sort();
	expect(idsOf((await ask("list", "--group", group!)).out)).toEqual(grouped.sort());
	expect(idsOf((await ask("list", "--model", "CHEAT")).out)).toEqual([alone]);
	expect((await ask("list", "--model", "gpt")).out).toContain("No rollouts");
});

test("list filters by label, and shows of a failure which it was", async () => {
	const [labelled] = await submit("noop", 1, { run: "a=b" });
	await submit("noop", 1, { run: "c" });
	const idsOf = (text: string) => text.match(/^ro_\w+/gm);
	expect(idsOf((await ask("list", "--label", "run=a=b")).out)).toEqual([labelled]);
	expect((await ask("list", "--label", "run=x")).out).toBe("No rollouts match.\n");
	expect((await ask("list", "--label", "run")).err).toContain("--label wants name=value");
	const failure = { boundary: "sandbox", code: "box_lost", message: "gone", retryable: true } as const;
	expect(stateOf({ status: "done", phase: "done", outcome: "failed", failure })).toBe("failed: box_lost");
	expect(stateOf({ status: "running", phase: "agent", outcome: null, failure: null })).toBe("agent");
});

test("export takes what has a label, and nothing else", async () => {
	const [labelled] = await submit("noop", 1, { run: "a=b" });
	const others = [...(await submit("noop", 1, { run: "c" })), ...(await submit("noop", 1))];
	{
		await using idle = await openIdlePaddock({ home: join(place.home, "data") });
		for (const id of [labelled!, ...others]) await idle.complete(id, 1, [completedCall()]);
	}
	const file = join(place.home, "samples.jsonl");
	const { code, err } = await ask("export", "--label", "run=a=b", "--out", file);
	expect({ code, err }).toEqual({ code: 0, err: `1 row of 1 rollout as jsonl in ${file}\n` });
	const rows = (await readFile(file, "utf8")).trim().split("\n");
	expect(rows.map((row) => JSON.parse(row).rollout_id)).toEqual([labelled]);
	expect((await ask("export", "--label", "run=x", "--out", file)).err).toMatch(/^0 rows of 0 rollouts/);
});

test("show of a running rollout has its commands so far, and the one that runs now", async () => {
	const [id] = await submit("noop", 1);
	await using idle = await openIdlePaddock({ home: join(place.home, "data") });
	await idle.store.begin(id!, "test-worker");
	const result = { cmd: "npm ci", exitCode: 0, stdout: "", stderr: "", durationS: 2 };
	await idle.store.append(id!, 1, [
		{ type: "phase-start", phase: "setup" },
		{ type: "setup-start", step: 1, of: 2, cmd: "npm ci" },
		{ type: "setup-end", result },
		{ type: "setup-start", step: 2, of: 2, cmd: "npm run build" },
	]);
	const { code, out } = await ask("show", id!);
	expect(code).toBe(0);
	expect(out).toMatch(/^Running now\n+ +setup 2\/2: npm run build$/m);
	expect(out).toMatch(/^Setup\n+ +ok +2\.0 s +npm ci$/m);
	expect(out).not.toContain("Verification");
});

test("abort ends what was named, or everything unfinished, and says which", async () => {
	const [first, second, third] = await submit("noop", 3);
	expect(await ask("abort", first!)).toEqual({ code: 0, out: `${first}\n`, err: "Aborted 1 rollout.\n" });
	const rest = await ask("abort", "--unfinished");
	expect(rest.out.trim().split("\n").sort()).toEqual([second, third].sort());
	expect((await ask("abort", "--unfinished")).err).toBe("Nothing to abort.\n");
	expect((await ask("list", "--outcome", "aborted")).out.match(/^ro_/gm)).toHaveLength(3);
});

test("abort ends a group or a batch, and nothing beside it", async () => {
	const { group, batch } = await (async () => {
		await using paddock = await open();
		const request = RolloutRequest.parse({ task: task(), endpoint: { type: "policy", policy: "noop" } });
		return {
			group: await paddock.submit(request, { n: 2 }),
			batch: await paddock.submitBatch([request, request], { n: 1 }),
		};
	})();
	const [beside] = await submit("noop", 1);
	const idsOf = (text: string) => text.trim().split("\n").sort();
	const of = (rollouts: { id: string }[]) => rollouts.map(({ id }) => id).sort();
	const groupId = group.group!.id;
	expect(idsOf((await ask("abort", "--group", groupId)).out)).toEqual(of(group.rollouts));
	expect(idsOf((await ask("abort", "--batch", batch.batch.id)).out)).toEqual(of(batch.rollouts));
	expect((await ask("abort", "--group", groupId)).err).toBe("Nothing to abort.\n");
	expect((await ask("abort", "--left-behind")).out).toBe(`${beside}\n`);
});

test("several rollouts of a task are summed up as mean and pass@k of their group; failures are no tries", () => {
	const row = (id: string, name: string, reward: number | null) => ({
		...newRow(id, `${name} #${id}`, name, `gr_${name}`),
		phase: "done" as const,
		outcome: reward === null ? ("failed" as const) : ("completed" as const),
		reward,
	});
	const rows = [
		row("1", "easy", 1),
		row("2", "easy", 1),
		row("3", "hard", 0),
		row("4", "hard", 1),
		row("5", "hard", null),
	];
	expect(summariseTasks(rows, 80)).toEqual([
		"task  rollouts  mean  pass@1  pass@2  group",
		"easy         2  1.00    1.00    1.00  gr_easy",
		"hard         3  0.50    0.50    1.00  gr_hard",
	]);
	expect(summariseTasks([row("1", "easy", 1), row("3", "hard", 0)], 80)).toEqual([]);
});

test("a rollout is found by the beginning of its id, however many came after it", async () => {
	const [first] = await submit("noop", 1);
	await submit("noop", 1_100);
	expect((await ask("show", first!.slice(0, -1), "--json")).out).toContain(first);
	expect((await ask("show", "ro_", "--json")).err).toContain('"ro_" could be 1101 rollouts');
});

test("every table is broken between columns in a narrow terminal", async () => {
	const env = { PADDOCK_HOME: join(place.home, "data") };
	const key = ["credentials", "add", "team", "--base-url", "http://127.0.0.1:9/v1", "--model", "small"];
	expect(await main(key, new RecordedShell({ env, input: "sk-12345678" }))).toBe(0);
	const agent = ["agent", "add", "aide", "--base-url", "http://127.0.0.1:9/v1", "--model", "small"];
	expect((await ask(...agent)).code).toBe(0);
	for (const command of ["agent list", "credentials list", "host list", "policy"]) {
		const shell = new RecordedShell({ env });
		Object.assign(shell.stdout, { isTTY: true, columns: 30 });
		expect(await main(command.split(" "), shell)).toBe(0);
		expect(shell.stdout.text, command).toMatch(/^\w+.*\n {4}\w/);
	}
});

test("in a narrow terminal a row takes several lines, and nothing of it is torn or cut", () => {
	const columns = [{ title: "task" }, { title: "reward", align: "right" as const }, { title: "rollout" }];
	const rows = [
		["fizzbuzz", "1.00", "ro_0mwimh5ae0908719052ca"],
		["a", "0.50", "ro_1"],
	];
	expect(layOut(columns, rows, 30)).toEqual([
		"task      reward",
		"    rollout",
		"fizzbuzz    1.00",
		"    ro_0mwimh5ae0908719052ca",
		"a           0.50",
		"    ro_1",
	]);
	expect(layOut(columns, rows)).toHaveLength(3);
});
