import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { type Client, createClient } from "../../src/client/client.ts";
import { loadConfig } from "../../src/config.ts";
import { openPaddock } from "../../src/paddock.ts";
import type { PolicyStep } from "../../src/policy/policy.ts";
import { openPolicyServer } from "../../src/policy/server.ts";
import { serve } from "../../src/server/serve.ts";
import { loadTask } from "../../src/task/load.ts";
import { openIdlePaddock } from "../../test/fixtures/idle-paddock.ts";
import { fillADay } from "./a-day.ts";
import { stretchTimes, writeMixedGroup } from "./mixed-group.ts";

/**
 * `npm run screenshots`: every page of the console, wide in light and dark, and narrow, into docs/screenshots. Some rollouts
 * are really run, two of them wait for a person while they are photographed; so that charts have something to show, a day of
 * rows that nobody ran is put beside them. SCREENSHOTS_HOME keeps what was run, SCREENSHOTS_ONLY=tokens,chat takes some.
 */
const root = join(import.meta.dirname, "..", "..");
const out = process.env.SCREENSHOTS_OUT ?? join(root, "docs", "screenshots");
const only = process.env.SCREENSHOTS_ONLY?.split(",");
const say = (text: string) => process.stderr.write(`${text}\n`);
const policy = (name: string) => ({ type: "policy", policy: name }) as const;
const example = (name: string) => loadTask(join(root, "examples", "tasks", name));
const LOOKS = [
	{ look: "light-wide", colorScheme: "light", viewport: { width: 1280, height: 800 } },
	{ look: "dark-wide", colorScheme: "dark", viewport: { width: 1280, height: 800 } },
	{ look: "light-phone", colorScheme: "light", viewport: { width: 390, height: 800 } },
	{ look: "dark-phone", colorScheme: "dark", viewport: { width: 390, height: 800 } },
] as const;
const EXAMPLES = ["fix-failing-test", "csv-mean", "partial-score", "log-parser"];

await using stack = new AsyncDisposableStack();
const home = process.env.SCREENSHOTS_HOME ?? (await mkdtemp(join(tmpdir(), "paddock-screenshots-")));
if (process.env.SCREENSHOTS_HOME === undefined) stack.defer(() => rm(home, { recursive: true, force: true }));
const env = { ...process.env, PADDOCK_HOME: home, PADDOCK_TOKEN: undefined };
const policies = stack.use(await openPolicyServer());

if (!(await hasRollouts())) {
	await runSome();
	fillADay(join(home, "paddock.db"));
	await writeScenes();
}
await photographAll();

async function hasRollouts(): Promise<boolean> {
	await using paddock = await openPaddock(loadConfig(env, home));
	return (await paddock.status()).rollouts.done > 0;
}

/** A scripted model under the name of a real one. */
async function modelThat(name: string, model: string, steps: PolicyStep[]) {
	const task = await example("fizzbuzz");
	const cast = stack.use(await policies.cast({ policy: "oracle", task, steps }, { model, apiKey: name }));
	const { baseUrl } = cast.endpoint;
	return { type: "url", baseUrl, model, apiKey: name, dialect: "vllm" } as const;
}

function bash(text: string, command: string): PolicyStep {
	return { text, calls: [{ tool: "bash", args: { command, description: "runs a command" } }] };
}

async function runSome(): Promise<void> {
	say("Running a few rollouts to look at …");
	await using paddock = await openPaddock(loadConfig(env, home));
	const worker = await paddock.work();
	await using serving = await serve(paddock, { host: "127.0.0.1", port: 0 });
	const client = createClient({ baseUrl: serving.url });
	const { rolloutIds } = await client.submitBatch({
		tasks: await Promise.all(EXAMPLES.map(example)),
		endpoints: [policy("oracle"), policy("noop")],
		sampling: { topLogprobs: 5 },
	});
	const { rollouts } = await client.submit({
		task: await example("fix-failing-test"),
		labels: { scene: "failing" },
		endpoint: await modelThat("failing", "Qwen/Qwen3-8B", [
			bash("I will see which tests fail.", "./js test/run.mjs"),
			{
				reasoning:
					"Rounding is the first fault. The others look like the tests' own mistakes, so this one will do.",
				text: "The units are rounded where they must be cut off. I change that.",
				calls: [
					{
						tool: "edit",
						args: {
							filePath: "/home/user/workdir/src/duration.mjs",
							oldString: "Math.round(rest / size)",
							newString: "Math.floor(rest / size)",
						},
					},
				],
			},
			bash("Now the tests once more.", "./js test/run.mjs"),
			{
				text: "I repaired the rounding in `src/duration.mjs`. **Two tests still fail**; they seem to expect too much.",
			},
		]),
	});
	const { id: chat } = await client.converse({
		endpoint: policy("noop"),
		text: "Which of these functions has the bug, and how would you test it?",
		labels: { title: "Which of these functions has the bug" },
	});
	for await (const event of client.conversationEvents(chat)) if (event.type === "turn-end") break;
	await client.closeConversation(chat);
	for (const id of [...rolloutIds, ...rollouts.map((row) => row.id)]) {
		const { taskId, outcome, reward } = await client.wait(id);
		say(`  ${taskId}: ${outcome}, ${reward}`);
	}
	await worker.drain(0);
}

/** Rollouts that nobody ran: written as a worker would. */
async function writeScenes(): Promise<void> {
	await using paddock = await openIdlePaddock({ home });
	await using serving = await serve(paddock, { host: "127.0.0.1", port: 0 });
	const client = createClient({ baseUrl: serving.url });
	const group = await writeMixedGroup(client, paddock.store, await example("fix-failing-test"));
	stretchTimes(join(home, "paddock.db"), group);
}

async function photographAll(): Promise<void> {
	await using paddock = await openPaddock(loadConfig(env, home));
	const worker = await paddock.work();
	await using serving = await serve(paddock, { host: "127.0.0.1", port: 0 });
	const client = createClient({ baseUrl: serving.url });
	const browser = await chromium.launch({
		executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
		args: ["--no-sandbox", "--disable-dev-shm-usage"],
	});
	stack.defer(() => browser.close());
	await mkdir(out, { recursive: true });
	const live = await beginLive(client);
	try {
		await photograph(browser, `${serving.url}/web`, await scenesOf(client, live));
	} finally {
		await client.abort(live.rollout);
		await client.closeConversation(live.chat);
		await worker.drain(0);
	}
}

/** Two agents that wait for a person. */
async function beginLive(client: Client): Promise<{ rollout: string; chat: string }> {
	const asks = [
		bash("I look at what is there.", "ls -la && ./js test/run.mjs"),
		bash(
			"I commit the change.",
			"git -c user.name=Ada -c user.email=ada@example.org commit -qam 'Whole units only'",
		),
		{ text: "Committed." },
	];
	const rules = [{ tool: "bash", pattern: "ls *", action: "allow" as const }];
	const { rollouts } = await client.submit({
		task: { ...(await example("fix-failing-test")), id: "fix-failing-test" },
		endpoint: await modelThat("asking", "Qwen/Qwen3-32B", asks),
		agent: { permission: "ask", permissionRules: rules, permissionDeadlineS: 3600 },
	});
	const { id: chat } = await client.converse({
		endpoint: await modelThat("chatting", "Qwen/Qwen3-Coder-30B-A3B", [
			{
				text: "I write the page and then start a server for it.",
				calls: [
					{ tool: "write", args: { filePath: "/home/user/workdir/index.html", content: "<h1>Hello</h1>\n" } },
				],
			},
			bash("The page is there. To serve it I need to run:", "python3 -m http.server 8080"),
			{ text: "It is served." },
		]),
		text: "Make a small page that says hello, and serve it.",
		by: "ada",
		labels: { title: "A small page that says hello" },
		agent: {
			permission: "ask",
			permissionRules: [{ tool: "edit", pattern: "*", action: "allow" }],
			permissionDeadlineS: 3600,
		},
	});
	for await (const event of client.events(rollouts[0]!.id)) if (event.type === "permission-ask") break;
	for await (const event of client.conversationEvents(chat)) if (event.type === "permission-ask") break;
	return { rollout: rollouts[0]!.id, chat };
}

async function openSampling(page: Page): Promise<void> {
	await page.getByText("Sampling", { exact: true }).click();
	await page.evaluate("scrollTo(0, 0)");
}

interface Scene {
	path: string;
	/** What a person does before the photograph. */
	act?: (page: Page) => Promise<unknown>;
}

async function scenesOf(
	client: Client,
	live: { rollout: string; chat: string },
): Promise<Record<string, Scene>> {
	const solved = (await client.list({ task_id: "fix-failing-test", model: "oracle", limit: 1 })).items[0]!;
	const failing = (await client.list({ label: "scene=failing", limit: 1 })).items[0]!;
	const mixed = (await client.groups({ limit: 20 })).items.find(({ n }) => n === 4)!;
	const members = (await client.list({ group_id: mixed.id, order: "oldest", limit: 4 })).items;
	const rollout = `/rollouts/${solved.id}`;
	return {
		home: { path: "/" },
		rollouts: { path: "/rollouts" },
		rollout: { path: rollout },
		failing: { path: `/rollouts/${failing.id}` },
		live: { path: `/rollouts/${live.rollout}` },
		tokens: { path: `${rollout}?tab=tokens` },
		break: {
			path: `/rollouts/${members[2]!.id}?tab=tokens`,
			act: (page) => page.locator(".branches button").nth(1).click(),
		},
		files: { path: `${rollout}?tab=files` },
		calls: { path: `${rollout}?tab=calls&call=3` },
		events: { path: `${rollout}?tab=events` },
		facts: { path: `${rollout}?tab=facts` },
		groups: { path: "/groups" },
		group: { path: `/groups/${mixed.id}` },
		"side-by-side": {
			path: `/groups/${mixed.id}`,
			act: async (page) => {
				await page.getByLabel("compare member 1").check();
				await page.getByLabel("compare member 3").check();
				await page.locator(".side-by-side .entry").nth(6).waitFor();
			},
		},
		compare: { path: "/compare" },
		launch: { path: "/launch", act: openSampling },
		machine: { path: "/machine" },
		chats: { path: "/chat" },
		chat: { path: `/chat/${live.chat}` },
		keys: { path: "/", act: (page) => page.keyboard.press("?") },
		token: {
			path: "/",
			act: async (page) => {
				await page.route("**/api/v1/**", (route) => route.fulfill({ status: 401, body: "{}" }));
				await page.reload();
				await page.getByLabel("Token").waitFor();
			},
		},
	};
}

async function photograph(browser: Browser, base: string, scenes: Record<string, Scene>): Promise<void> {
	const wanted = Object.entries(scenes).filter(([name]) => only?.includes(name) ?? true);
	for (const { look, colorScheme, viewport } of LOOKS) {
		for (const [name, scene] of wanted) {
			const context = await browser.newContext({ colorScheme, viewport, reducedMotion: "reduce" });
			const page = await context.newPage();
			await page.goto(base + scene.path);
			await page.locator("h1").first().waitFor();
			// Pages ask again and again while one looks: quiet means that the first answers are in.
			await page.getByText(/^(Reading|Loading)/).waitFor({ state: "detached" });
			await scene.act?.(page);
			await page.evaluate("document.fonts.ready.then(() => null)");
			await page.waitForTimeout(/tokens|break/.test(name) ? 1500 : 700);
			await page.screenshot({ path: join(out, `${name}-${look}.jpg`), type: "jpeg", quality: 62 });
			await context.close();
		}
		say(look);
	}
}
