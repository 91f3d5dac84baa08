import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import { RolloutRequest } from "../src/model/request.ts";
import { openPostgresStore } from "../src/store/postgres/postgres.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite.ts";
import type { Store } from "../src/store/store.ts";
import { findPostgres, startPostgres } from "../test/fixtures/postgres.ts";

const ROLLOUTS = 50_000;
const EVENTS_EACH = 20;
const TIMES = 20;
const START = 1_790_000_000_000;

/** 50,000 rollouts and 1,000,000 events at rest: how long opening and every question take, and what appends cost. */
export async function benchStore(print: (line: string) => void): Promise<void> {
	const home = await mkdtemp(join(tmpdir(), "paddock-bench-"));
	try {
		await (await openSqliteStore({ home }))[Symbol.asyncDispose]();
		fillSqlite(join(home, "paddock.db"), ROLLOUTS);
		await measure("embedded", () => openSqliteStore({ home }), print);
		if (findPostgres() === null) {
			print("PostgreSQL is not installed: skipped");
			return;
		}
		await using server = await startPostgres();
		const { url } = server;
		await (await openPostgresStore({ url, home }))[Symbol.asyncDispose]();
		await fillPostgres(url);
		await measure("PostgreSQL", () => openPostgresStore({ url, home }), print);
	} finally {
		await rm(home, { recursive: true });
	}
}

async function measure(
	name: string,
	open: () => Promise<Store>,
	print: (line: string) => void,
): Promise<void> {
	const startedAt = performance.now();
	await using store = await open();
	await store.counts();
	print(`${name}: open and count ${(performance.now() - startedAt).toFixed(0)} ms`);
	const questions: [string, () => Promise<unknown>][] = [
		["list, newest 50", () => store.list({}, { limit: 50 })],
		["list, page in the middle", () => store.list({}, { limit: 50, cursor: cursorAt(ROLLOUTS / 2) })],
		["list, status queued", () => store.list({ status: "queued" }, { limit: 50 })],
		["list, status done", () => store.list({ status: "done" }, { limit: 50 })],
		["list, a rare outcome", () => store.list({ outcome: "budget" }, { limit: 50 })],
		["list, one task", () => store.list({ taskId: "task-7" }, { limit: 50 })],
		["list, one group", () => store.list({ groupId: "gr_100" }, { limit: 50 })],
		["list, one batch", () => store.list({ batchId: "ba_3" }, { limit: 50 })],
		["list, one label", () => store.list({ label: { name: "run", value: "r5" } }, { limit: 50 })],
		[
			"list, label and a rare outcome",
			() => store.list({ label: { name: "all", value: "yes" }, outcome: "budget" }, { limit: 50 }),
		],
		[
			"list, nothing matches two common filters",
			() => store.list({ status: "done", taskId: "none" }, { limit: 50 }),
		],
		["list, done and a rare outcome", () => store.list({ status: "done", outcome: "budget" }, { limit: 50 })],
		[
			"list, label and a common outcome",
			() => store.list({ label: { name: "run", value: "r5" }, outcome: "completed" }, { limit: 50 }),
		],
		["list, one model", () => store.list({ model: "model-3" }, { limit: 50 })],
		["list, models by a part of their name", () => store.list({ model: "MODEL" }, { limit: 50 })],
		[
			"list, a rare model and a common task",
			() => store.list({ model: "rare", taskId: "task-0" }, { limit: 50 }),
		],
		["list, a common word", () => store.list({ text: "failing" }, { limit: 50 })],
		["list, a rare word", () => store.list({ text: "task 25000" }, { limit: 50 })],
		[
			"list, a common word and a rare outcome",
			() => store.list({ text: "fail", outcome: "budget" }, { limit: 50 }),
		],
		["list, a reward range", () => store.list({ minReward: 1 }, { limit: 50 })],
		["list, a reward nobody has", () => store.list({ minReward: 0.4, maxReward: 0.6 }, { limit: 50 })],
		["list, a long time ago", () => store.list({ until: START + 600 }, { limit: 50 })],
		["list, submitted in the first half", () => store.list({ until: START + ROLLOUTS / 2 }, { limit: 50 })],
		["list, lowest reward", () => store.list({}, { limit: 50, order: "lowest-reward" })],
		["list, longest of one model", () => store.list({ model: "model-3" }, { limit: 50, order: "longest" })],
		[
			"list, most tokens of a rare model",
			() => store.list({ model: "rare" }, { limit: 50, order: "most-tokens" }),
		],
		["statistics of everything", () => store.statistics({}, { buckets: 60 })],
		["statistics of one model", () => store.statistics({ model: "model-3" }, { buckets: 60 })],
		[
			"statistics of the last 5,000",
			() => store.statistics({}, { since: START + ROLLOUTS - 5000, buckets: 60 }),
		],
		["get", () => store.get("ro_25000")],
		["events, one rollout", () => store.events("ro_25000", { after: 0, limit: 1000 })],
		["group", () => store.group("gr_100")],
		["counts", () => store.counts()],
	];
	for (const [what, ask] of questions) print(`${name}: ${what} ${await timed(ask)}`);
	await measureAppends(name, store, print);
}

/** 300 rollouts that append at once, as they do when all run. */
async function measureAppends(name: string, store: Store, print: (line: string) => void): Promise<void> {
	const ids = Array.from({ length: 300 }, (_, index) => `ro_${index + 1}`);
	await Promise.all(ids.map((id) => store.begin(id, "bench")));
	const startedAt = performance.now();
	for (let round = 0; round < 10; round++) {
		await Promise.all(ids.map((id) => store.append(id, 1, [{ type: "note", text: "x".repeat(200) }])));
	}
	const seconds = (performance.now() - startedAt) / 1000;
	print(`${name}: ${Math.round((ids.length * 10) / seconds)} durable appends per second, 300 at once`);
}

async function timed(ask: () => Promise<unknown>): Promise<string> {
	const times: number[] = [];
	for (let index = 0; index < TIMES; index++) {
		const startedAt = performance.now();
		await ask();
		times.push(performance.now() - startedAt);
	}
	times.sort((a, b) => a - b);
	return `median ${times[TIMES / 2]!.toFixed(1)} ms, worst ${times.at(-1)!.toFixed(1)} ms`;
}

function cursorAt(position: number): string {
	return Buffer.from(String(position), "latin1").toString("base64url");
}

const { task, ...terms } = RolloutRequest.parse({
	task: { id: "task", instruction: "Fix the failing test. ".repeat(100) },
	endpoint: { type: "policy", policy: "noop" },
});
const TASK = JSON.stringify(task);
const TERMS = JSON.stringify(terms);
/** Names the task of a row of `rollouts`: each group has its own. */
const HASH = "'task of ' || group_id";
const EVENT = JSON.stringify({ type: "note", text: "Something happened in the box. ".repeat(5) });

/** What a search finds a rollout by. */
const WORDS = (number: string, toText: string) =>
	`'ro task fix the failing test model ' || ${number}${toText}`;

const COLUMNS =
	"id, kind, task_id, model, status, phase, attempt, group_id, batch_id, created_at, started_at, finished_at, outcome, reward, last_seq, revision, duration_s, length, agent_s, verify_s";
/** The first 500 are queued, the others done, every 1,000th of them out of budget. */
const rolloutRows = (number: string, text: (expression: string) => string) => `
	SELECT 'ro_' || ${text("i")}, 'rollout', 'task-' || ${text(`(i % 100)`)},
		CASE WHEN i % 5000 = 0 THEN 'rare' ELSE 'model-' || ${text("(i % 8)")} END,
		CASE WHEN i <= 500 THEN 'queued' ELSE 'done' END, CASE WHEN i <= 500 THEN 'queued' ELSE 'done' END,
		CASE WHEN i <= 500 THEN 0 ELSE 1 END, 'gr_' || ${text("(i / 8)")}, 'ba_' || ${text("(i / 5000)")},
		${START}.0 + i, ${START}.0 + i, CASE WHEN i > 500 THEN ${START}.0 + i END, CASE WHEN i <= 500 THEN NULL WHEN i % 1000 = 0 THEN 'budget' ELSE 'completed' END,
		CASE WHEN i <= 500 THEN NULL ELSE (i % 2) * 1.0 END, ${EVENTS_EACH}, 1,
		CASE WHEN i > 500 THEN (i % 700) * 0.5 END, CASE WHEN i > 500 THEN i % 9000 END, 2.5, 0.5 FROM ${number}`;

/** So many finished rollouts, with everything that lists look at. */
export function fillSqlite(file: string, rollouts: number): void {
	const database = new DatabaseSync(file);
	const numbers = (count: number) =>
		`(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count}) SELECT i FROM n)`;
	database.exec(`PRAGMA synchronous = OFF; BEGIN;
		INSERT INTO rollouts (${COLUMNS}) ${rolloutRows(numbers(rollouts), (expression) => expression)};
		INSERT INTO groups (id, task_id, batch_id, n, created_at)
			SELECT 'gr_' || i, 'task', NULL, 8, 0.0 FROM ${numbers(rollouts / 8)};
		INSERT INTO models SELECT DISTINCT model FROM rollouts;
		INSERT INTO rollout_words (rowid, words) SELECT position, ${WORDS("position", "")} FROM rollouts ORDER BY position;
		INSERT INTO labels SELECT 'all', 'yes', position FROM rollouts;
		INSERT INTO labels SELECT 'run', 'r' || (position % 50), position FROM rollouts;`);
	database.prepare(`INSERT INTO tasks SELECT DISTINCT ${HASH}, ? FROM rollouts`).run(TASK);
	database
		.prepare(
			`INSERT INTO rollout_bodies (position, terms, task_hash) SELECT position, ?, ${HASH} FROM rollouts`,
		)
		.run(TERMS);
	database
		.prepare(
			`INSERT INTO events SELECT position, i, 0.0, ? FROM rollouts CROSS JOIN ${numbers(EVENTS_EACH)} ORDER BY 1, 2`,
		)
		.run(EVENT);
	database.exec("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
	database.close();
}

async function fillPostgres(url: string): Promise<void> {
	const client = new pg.Client({ connectionString: url, options: "-c search_path=paddock" });
	await client.connect();
	const numbers = (count: number) => `generate_series(1, ${count}) AS n(i)`;
	await client.query(`INSERT INTO rollouts (${COLUMNS})
		${rolloutRows(numbers(ROLLOUTS), (expression) => `${expression}::text`)}`);
	await client.query(`INSERT INTO groups (id, task_id, batch_id, n, created_at)
		SELECT 'gr_' || i, 'task', NULL, 8, 0.0 FROM ${numbers(ROLLOUTS / 8)}`);
	await client.query("INSERT INTO models SELECT DISTINCT model FROM rollouts");
	await client.query(`INSERT INTO rollout_words
		SELECT position, array_to_tsvector(string_to_array(${WORDS("position", "::text")}, ' ')) FROM rollouts`);
	await client.query("INSERT INTO labels SELECT 'all', 'yes', position FROM rollouts");
	await client.query("INSERT INTO labels SELECT 'run', 'r' || (position % 50), position FROM rollouts");
	await client.query(`INSERT INTO tasks SELECT DISTINCT ${HASH}, $1 FROM rollouts`, [TASK]);
	await client.query(
		`INSERT INTO rollout_bodies (position, terms, task_hash) SELECT position, $1, ${HASH} FROM rollouts`,
		[TERMS],
	);
	await client.query(
		`INSERT INTO events SELECT position, i, 0.0, $1 FROM rollouts CROSS JOIN ${numbers(EVENTS_EACH)}`,
		[EVENT],
	);
	// As autovacuum leaves it.
	await client.query("VACUUM ANALYZE");
	await client.end();
}

if (import.meta.main) await benchStore((line) => console.log(line));
