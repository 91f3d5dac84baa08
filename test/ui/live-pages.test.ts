import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { EventBody } from "../../src/model/event.ts";
import { type Serving, serve } from "../../src/server/serve.ts";
import { aCall } from "../export/calls.ts";
import { openBrowser, requireBrowser, seriousFindings, visit } from "../fixtures/browser.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { openScriptedModel, say } from "../fixtures/script.ts";

/** Pages while something goes on: the test plays the worker, so that it can stop in the middle. */
const owned = new AsyncDisposableStack();
let paddock: IdlePaddock;
let serving: Serving;
let client: Client;
let browser: Browser;

beforeAll(async () => {
	paddock = owned.use(await openIdlePaddock());
	serving = owned.use(await serve(paddock, { host: "127.0.0.1", port: 0 }));
	client = createClient({ baseUrl: serving.url });
	browser = await openBrowser().catch(() => null as unknown as Browser);
	if (browser !== null) owned.defer(() => browser.close());
});
afterAll(() => owned.disposeAsync());

const web = (path: string) => `${serving.url}/web${path}`;
const result = (cmd: string, exitCode: number, stdout = "") => ({
	...{ cmd, exitCode, stdout, stderr: "", durationS: 1 },
});
const asks: EventBody = {
	type: "permission-ask",
	requestId: "per_1",
	permission: "bash",
	patterns: ["rm -rf build"],
};

async function submit(id: string, on = client): Promise<string> {
	const { rollouts } = await on.submit({
		task: { id, instruction: "Go on." },
		endpoint: { type: "policy", policy: "noop" },
		agent: { permission: "deny", permissionRules: [{ tool: "bash", pattern: "git *", action: "ask" }] },
		sampling: { seed: 7, topK: 40 },
		labels: { run: "4" },
	});
	return rollouts[0]!.id;
}

/** A rollout that a worker has begun, up to where `events` leave it. */
async function begin(id: string, events: EventBody[], { store }: IdlePaddock = paddock) {
	const { attempt } = (await store.begin(id, "test-worker"))!;
	const append = (more: EventBody[]) => store.append(id, attempt, more);
	await append([
		{ type: "phase-start", phase: "agent" },
		{ type: "session-start", sessionId: "ses_1" },
		...events,
	]);
	return {
		append,
		attempt,
		finish: (reward: number) =>
			store.finish(id, attempt, { outcome: "completed", reward, failure: null, summary: null }),
	};
}

const tabNow = (page: Page) => page.locator("[role=tab][aria-selected=true]").textContent();

test("a phase and its command are told while they run, after a reload, and over to their end", async (context) => {
	requireBrowser(context);
	const id = await submit("running");
	const worker = await begin(id, []);
	await using tab = await visit(browser, web(`/rollouts/${id}`));
	const { page } = tab;
	await page.getByText("◌ agent").waitFor();
	await worker.append([
		{ type: "phase-start", phase: "verify" },
		{ type: "verify-start", step: 1, of: 2, cmd: "npm test" },
	]);
	await page.getByText("◌ verify").waitFor();
	await page.getByText(/verify 1 of 2/).waitFor();
	await page.reload();
	await page.getByText("◌ verify").waitFor();
	await page.getByText(/verify 1 of 2/).waitFor();
	await worker.append([
		{
			type: "verify-end",
			result: result("npm test", 1, "<img src=x onerror='window.harmed=1'>\u202egnp.exe"),
		},
		{ type: "reward", reward: 0.5 },
	]);
	await worker.finish(0.5);
	await page.getByText("● completed").waitFor();
	expect(await page.locator(".reward.large").textContent()).toContain("0.50");
	await page.getByText("<img src=x onerror='window.harmed=1'>⟨202e⟩gnp.exe").waitFor();
	expect(await page.evaluate(() => (globalThis as { harmed?: number }).harmed)).toBeUndefined();
	expect(tab.troubles).toEqual([]);
});

test("a live rollout goes on in the page when its server is restarted underneath", async (context) => {
	requireBrowser(context);
	const home = await mkdtemp(join(tmpdir(), "paddock-console-"));
	{
		const first = await openIdlePaddock({ home });
		const before = await serve(first, { host: "127.0.0.1", port: 0 });
		const id = await submit("restarted", createClient({ baseUrl: before.url }));
		const worker = await begin(id, [{ type: "note", text: "said before" }], first);
		await using tab = await visit(browser, `${before.url}/web/rollouts/${id}`);
		await tab.page.getByText("said before").waitFor();
		await before[Symbol.asyncDispose]();
		await first[Symbol.asyncDispose]();
		await using second = await openIdlePaddock({ home });
		await second.store.append(id, worker.attempt, [{ type: "note", text: "said after" }]);
		await using _after = await serve(second, { host: "127.0.0.1", port: Number(new URL(before.url).port) });
		await tab.page.getByText("said after").waitFor({ timeout: 60_000 });
		expect(await tab.page.getByText("said before").count()).toBe(1);
	}
	await rm(home, { recursive: true, force: true });
});

test("keys: two in a row win over one, a dialog keeps them to itself, and Esc only closes it", async (context) => {
	requireBrowser(context);
	const id = await submit("keys");
	await begin(id, [asks]);
	await using tab = await visit(browser, web("/rollouts"));
	const { page } = tab;
	await page.goto(web(`/rollouts/${id}`));
	await page.getByRole("button", { name: "Allow once" }).waitFor();
	for (const [key, label] of [
		["t", "Tokens"],
		["d", "Files"],
		["v", "Verify"],
	] as const) {
		await page.keyboard.press(key);
		await expect.poll(() => tabNow(page)).toBe(label);
	}
	await page.keyboard.press("?");
	await page.getByRole("dialog", { name: "Keys" }).waitFor();
	await page.keyboard.press("t");
	await page.keyboard.press("Escape");
	await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
	expect(page.url()).toContain(id);
	expect(await tabNow(page)).toBe("Verify");
	await page.keyboard.press("g");
	await page.keyboard.press("t");
	await page.waitForURL(/\/web\/chat$/);
	await page.goBack();
	await page.getByRole("button", { name: "Allow once" }).waitFor();
	await page.keyboard.press("g");
	await page.keyboard.press("r");
	await page.waitForURL(/\/web\/rollouts$/);
	expect(tab.troubles).toEqual([]);
});

test("a card that waits has no serious findings of accessibility in any look, and the theme outlives a reload", async (context) => {
	requireBrowser(context);
	const id = await submit("asking");
	const questions = [{ question: "Which?", header: "W", options: [{ label: "this", description: "one" }] }];
	await begin(id, [asks, { type: "question-ask", requestId: "que_1", questions }]);
	for (const look of [{}, { dark: true }, { phone: true }, { dark: true, phone: true }]) {
		await using tab = await visit(browser, web(`/rollouts/${id}`), look);
		await tab.page.getByRole("button", { name: "Allow once" }).waitFor();
		await tab.page.getByLabel("this").waitFor();
		expect({ look, found: await seriousFindings(tab.page) }).toEqual({ look, found: [] });
		expect(tab.troubles).toEqual([]);
	}
	await using tab = await visit(browser, web("/"));
	const { page } = tab;
	await page.getByRole("button", { name: "Theme: system" }).click();
	await page.getByRole("button", { name: "Theme: light" }).click();
	await page.reload();
	await page.getByRole("button", { name: "Theme: dark" }).waitFor();
	expect(await page.evaluate("getComputedStyle(document.documentElement).colorScheme")).toBe("dark");
});

test("the address names a call: it is marked in the list, and its tokens come into view", async (context) => {
	requireBrowser(context);
	const id = await submit("called");
	const ids = [1, 2, 3];
	const calls = [0, 1, 2].map((index) =>
		aCall({ index, promptIds: ids.concat(Array(index * 2).fill(10)), completionIds: [10, 10] }),
	);
	await paddock.complete(id, 1, calls);
	await using tab = await visit(browser, web(`/rollouts/${id}?tab=tokens&call=3`));
	await tab.page.locator(".call-mark", { hasText: "call 3" }).waitFor();
	expect(await tab.page.locator(".call-mark").first().textContent()).toContain("call 1");
	const live = await submit("live");
	const call = {
		...{ purpose: "main" as const, sessionId: null, finishReason: "tool_calls", promptTokens: 10 },
	};
	const end = (index: number): EventBody => ({
		type: "call-end",
		call: {
			...call,
			index,
			completionTokens: 2,
			complete: true,
			latencyMs: 900,
			firstByteMs: 300,
			error: null,
		},
	});
	await begin(live, [end(0), end(1)]);
	await tab.page.goto(web(`/rollouts/${live}?tab=calls&call=2`));
	const marked = await tab.page.locator(".calls tr.chosen").textContent();
	expect(marked).toMatch(/^2main.*tool calls.*0\.3 s.*0\.9 s/);
	expect(tab.troubles).toEqual([]);
});

test("what an agent left is shown as text: file names, contents, the diff, and a line of 5 MB", async (context) => {
	requireBrowser(context);
	const id = await submit("hostile");
	const nasty = "<script>window.harmed=1</script>\u{e0041}";
	const state = { status: "completed", input: { command: "x" }, output: "y".repeat(5_000_000) };
	const part = {
		...{ id: "prt_1", messageID: "msg_1", sessionID: "ses_1", type: "tool" },
		tool: "bash",
		callID: "c",
		state,
	};
	const worker = await begin(id, [
		{ type: "agent-event", name: "message.part.updated", properties: { part } },
	]);
	const bytes = (text: string) => new TextEncoder().encode(text);
	const files = { [`a/${nasty}`]: nasty };
	await paddock.store.putBlob(id, worker.attempt, "files.json", bytes(JSON.stringify(files)));
	const patch = `diff --git a/x b/x\n--- a/${nasty}\n+++ b/${nasty}\n@@ -1 +1 @@\n-old\n+${nasty}\n`;
	await paddock.store.putBlob(id, worker.attempt, "diff.patch", bytes(patch));
	await worker.finish(0);
	await using tab = await visit(browser, web(`/rollouts/${id}?tab=files`));
	const { page } = tab;
	const visible = "<script>window.harmed=1</script>⟨e0041⟩";
	await page.locator(".patch .add", { hasText: visible }).waitFor();
	await page.locator("summary code", { hasText: visible }).first().waitFor();
	await page.locator(".tool summary").first().click();
	await page.locator(".tool pre.output", { hasText: "characters ⋯" }).waitFor();
	const shown = (await page.locator(".tool pre.output").last().textContent())!.length;
	expect(shown).toBeGreaterThan(100_000);
	expect(shown).toBeLessThan(300_000);
	expect(await page.evaluate(() => (globalThis as { harmed?: number }).harmed)).toBeUndefined();
	expect(tab.troubles).toEqual([]);
});

test("run again sends the same request, and what is wrong stands at its field", async (context) => {
	requireBrowser(context);
	const id = await submit("again");
	await using tab = await visit(browser, web(`/rollouts/${id}`));
	const { page } = tab;
	await page.getByRole("link", { name: "Run again" }).click();
	await expect.poll(() => page.getByLabel("Task", { exact: true }).inputValue()).toBe("again");
	await page.locator("summary", { hasText: "Sampling" }).click();
	await page.getByLabel("Top p").fill("2");
	await page
		.locator("label.wrong", { hasText: "Top p" })
		.getByText(/expected number to be <=1/)
		.waitFor();
	expect(await page.getByRole("button", { name: "Run 1 now" }).isDisabled()).toBe(true);
	await page.getByLabel("Top p").fill("");
	await page.getByRole("button", { name: "Run 1 now" }).click();
	await page.waitForURL((url) => url.pathname.includes("/rollouts/ro_") && !url.pathname.includes(id));
	const { request } = await client.get(page.url().split("/").at(-1)!);
	expect(request).toEqual((await client.get(id)).request);
	expect(tab.troubles).toEqual([]);
});

test("a key is stored, tried and forgotten on the machine's page, and is nowhere in it", async (context) => {
	requireBrowser(context);
	const secret = "sk-of-the-page";
	await using model = await openScriptedModel([say("Paris, Tokyo, Cairo, Lima")], { apiKey: secret });
	await using tab = await visit(browser, web("/machine"));
	const { page } = tab;
	await page.getByText("Store an API key").click();
	await page.getByLabel("Label").fill("team");
	await page.getByLabel("Base URL").fill(model.endpoint.baseUrl);
	await page.getByLabel("Model name").fill(model.endpoint.model);
	await page.getByLabel("API key").fill(secret);
	await page.getByRole("button", { name: "Store", exact: true }).click();
	await page.getByRole("button", { name: "verify team" }).click();
	await page.locator("tr", { hasText: "team" }).getByText("alive").waitFor();
	expect(
		await page.evaluate("document.documentElement.outerHTML + JSON.stringify(sessionStorage)"),
	).not.toContain(secret);
	expect(await page.getByLabel("API key").inputValue()).toBe("");
	await page.getByRole("button", { name: "forget team" }).click();
	await page.getByRole("button", { name: "forget team" }).waitFor({ state: "detached" });
	expect(tab.troubles).toEqual([]);
});

test("two batches are compared task by task, and what differs comes first and is marked", async (context) => {
	requireBrowser(context);
	const batch = async (rewards: Record<string, number>) => {
		const tasks = Object.keys(rewards).map((id) => ({ id, instruction: "Do." }));
		const { batch: made, rolloutIds } = await client.submitBatch({
			tasks,
			endpoints: [{ type: "policy", policy: "noop" }],
		});
		for (const id of rolloutIds) await paddock.complete(id, rewards[(await client.get(id)).taskId]!);
		return made.id;
	};
	const [a, b] = [await batch({ alike: 1, other: 1 }), await batch({ alike: 1, other: 0 })];
	await using tab = await visit(browser, web(`/compare?a=${a}&b=${b}`));
	const { page } = tab;
	const first = page.locator(".matrix tbody tr").first();
	await first.waitFor();
	expect(await first.locator("th").textContent()).toBe("other");
	expect(await first.getAttribute("class")).toBe("differs");
	expect(await first.locator(".best").textContent()).toContain("1.00");
	expect(await page.locator(".matrix tbody tr.differs").count()).toBe(1);
	expect(tab.troubles).toEqual([]);
});
