import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type Browser, chromium } from "playwright-core";
import { createClient } from "../src/client/client.ts";
import { loadConfig } from "../src/config.ts";
import { openPaddock } from "../src/paddock.ts";
import { serve } from "../src/server/serve.ts";
import { loadTask } from "../src/task/load.ts";

/**
 * `npm run screenshots`: every page of the console, light and dark, wide and narrow, into docs/screenshots. A few rollouts
 * are really run; so that charts have something to show, a day of rows that nobody ran is put beside them.
 */
const root = join(import.meta.dirname, "..");
const out = join(root, "docs", "screenshots");
const say = (text: string) => process.stderr.write(`${text}\n`);
const policy = (name: string) => ({ type: "policy", policy: name }) as const;
const EXAMPLES = ["fix-failing-test", "csv-mean", "partial-score", "log-parser"];

await using stack = new AsyncDisposableStack();
const home = process.env.SCREENSHOTS_HOME ?? (await mkdtemp(join(tmpdir(), "paddock-screenshots-")));
if (process.env.SCREENSHOTS_HOME === undefined) stack.defer(() => rm(home, { recursive: true, force: true }));
const env = { ...process.env, PADDOCK_HOME: home, PADDOCK_TOKEN: undefined };

if (!(await hasRollouts())) {
	await runSome();
	fillADay(join(home, "paddock.db"));
}
await photographAll();

async function hasRollouts(): Promise<boolean> {
	await using paddock = await openPaddock(loadConfig(env, home));
	return (await paddock.status()).rollouts.done > 0;
}

async function runSome(): Promise<void> {
	say("Running a few rollouts to look at …");
	await using paddock = await openPaddock(loadConfig(env, home));
	const worker = await paddock.work();
	await using serving = await serve(paddock, { host: "127.0.0.1", port: 0 });
	const client = createClient({ baseUrl: serving.url });
	const example = (name: string) => loadTask(join(root, "examples", "tasks", name));
	const { rolloutIds } = await client.submitBatch({
		tasks: await Promise.all(EXAMPLES.map(example)),
		endpoints: [policy("oracle"), policy("noop")],
		sampling: { topLogprobs: 5 },
	});
	const { rollouts } = await client.submit({
		task: await example("fizzbuzz"),
		endpoint: policy("oracle"),
		sampling: { topLogprobs: 5 },
		n: 4,
	});
	const { id: chat } = await client.converse({
		endpoint: policy("noop"),
		text: "Which of these functions has the bug, and how would you test it?",
	});
	for await (const event of client.conversationEvents(chat)) if (event.type === "turn-end") break;
	await client.closeConversation(chat);
	for (const id of [...rolloutIds, ...rollouts.map((row) => row.id)]) {
		const { taskId, outcome, reward } = await client.wait(id);
		say(`  ${taskId}: ${outcome}, ${reward}`);
	}
	await worker.drain(0);
}

/** A model that learns during a day, another that does not; one in twelve ends otherwise than it should. */
function fillADay(file: string): void {
	using database = new DatabaseSync(file);
	const dayMs = 86_400_000;
	const rollouts =
		database.prepare(`INSERT INTO rollouts (id, kind, task_id, model, status, phase, attempt, created_at,
		started_at, finished_at, outcome, reward, calls, prompt_tokens, completion_tokens, last_seq, revision,
		duration_s, length, create_s, setup_s, agent_s, verify_s, collect_s)
		VALUES (?, 'rollout', ?, ?, 'done', 'done', 1, ?, ?, ?, ?, ?, ?, ?, ?, 0, 1, ?, ?, ?, ?, ?, ?, ?)`);
	const bodies = database.prepare(
		"INSERT INTO rollout_bodies (position, terms, task_hash) SELECT ?, ?, min(hash) FROM tasks",
	);
	const words = database.prepare("INSERT INTO rollout_words (rowid, words) VALUES (?, ?)");
	const [{ terms }] = database.prepare("SELECT terms FROM rollout_bodies LIMIT 1").all() as [
		{ terms: string },
	];
	const models = ["Qwen/Qwen3-8B", "Qwen/Qwen3-8B-step-400"];
	for (const name of models)
		database.exec(`INSERT INTO models (name) VALUES ('${name}') ON CONFLICT DO NOTHING`);
	let seed = 7;
	const chance = () => {
		seed = (seed * 16_807) % 2_147_483_647;
		return seed / 2_147_483_647;
	};
	for (let index = 0; index < 900; index += 1) {
		const day = index / 900;
		const finishedAt = Date.now() - dayMs + day * (dayMs - 900_000);
		const model = models[index % 2]!;
		const skill = index % 2 === 1 ? 0.25 + 0.6 * day : 0.35;
		const dice = chance();
		const outcome = dice < 0.03 ? "failed" : dice < 0.06 ? "timeout" : dice < 0.08 ? "budget" : "completed";
		const passed = [0, 1, 2, 3].filter(() => chance() < skill).length;
		const reward = outcome === "completed" ? passed / 4 : outcome === "failed" ? null : 0;
		const agent = 6 + 30 * chance() * (1.4 - day) + (outcome === "timeout" ? 120 : 0);
		const [create, setup, verify, collect] = [0.2 + chance() * 0.2, chance() * 2, 0.4 + chance() * 3, 0.1];
		const seconds = create + setup + agent + verify + collect;
		const calls = 3 + Math.floor(chance() * 14);
		const length = Math.floor(calls * (60 + 220 * chance()));
		const task = EXAMPLES[Math.floor(chance() * EXAMPLES.length)]!;
		const id = `ro_shown${String(index).padStart(6, "0")}`;
		const { lastInsertRowid } = rollouts.run(
			...[
				id,
				task,
				model,
				finishedAt - seconds * 1000 - 1500 * chance(),
				finishedAt - seconds * 1000,
				finishedAt,
			],
			...[outcome, reward, calls, calls * (2400 + Math.floor(900 * chance())), length],
			...[seconds, length, create, setup, agent, verify, collect],
		);
		const endpoint = { type: "url", baseUrl: "http://10.0.0.7:8000/v1", model, dialect: "vllm" };
		bodies.run(lastInsertRowid, JSON.stringify({ ...JSON.parse(terms), endpoint }));
		words.run(lastInsertRowid, `${id} ${task} ${model}`);
	}
}

async function photographAll(): Promise<void> {
	await using paddock = await openPaddock(loadConfig(env, home));
	await using serving = await serve(paddock, { host: "127.0.0.1", port: 0 });
	const client = createClient({ baseUrl: serving.url });
	const browser = await chromium.launch({
		executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
		args: ["--no-sandbox", "--disable-dev-shm-usage"],
	});
	stack.defer(() => browser.close());
	const { items } = await client.list({ task_id: "fix-failing-test", model: "oracle", limit: 1 });
	const groups = await client.groups({ limit: 20 });
	const chats = await client.conversations({ limit: 1 });
	const group = groups.items.find(({ n }) => n > 1)!;
	const batch = (await client.batches({ limit: 1 })).items[0]!;
	const rollout = `/rollouts/${items[0]!.id}`;
	await rm(out, { recursive: true, force: true });
	await mkdir(out, { recursive: true });
	await photograph(browser, `${serving.url}/web`, {
		home: "/",
		rollouts: "/rollouts",
		rollout,
		tokens: `${rollout}?tab=tokens`,
		files: `${rollout}?tab=files`,
		calls: `${rollout}?tab=calls`,
		groups: "/groups",
		group: `/groups/${group.id}`,
		compare: `/compare?a=${batch.id}`,
		launch: "/launch",
		machine: "/machine",
		chats: "/chat",
		chat: `/chat/${chats.items[0]!.id}`,
	});
}

async function photograph(browser: Browser, base: string, pages: Record<string, string>): Promise<void> {
	const sizes = { wide: { width: 1280, height: 800 }, phone: { width: 390, height: 800 } };
	for (const colorScheme of ["light", "dark"] as const) {
		for (const [size, viewport] of Object.entries(sizes)) {
			const context = await browser.newContext({ colorScheme, viewport });
			const page = await context.newPage();
			for (const [name, path] of Object.entries(pages)) {
				await page.goto(`${base}${path}`);
				await page.locator("h1").first().waitFor();
				// Pages ask again and again while one looks: quiet means that the first answers are in.
				await page.getByText(/^(Reading|Loading)/).waitFor({ state: "detached" });
				await page.evaluate("document.fonts.ready.then(() => null)");
				await page.waitForTimeout(name === "tokens" ? 1500 : 700);
				const file = join(out, `${name}-${colorScheme}-${size}.jpg`);
				await page.screenshot({ path: file, type: "jpeg", quality: 72 });
			}
			await context.close();
			say(`${colorScheme}, ${size}`);
		}
	}
}
