import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import { loadConfig } from "../../src/config.ts";
import { openPaddock, type Paddock } from "../../src/paddock.ts";
import { type Serving, serve } from "../../src/server/serve.ts";
import { openBrowser, requireBrowser, seriousFindings, visit } from "../fixtures/browser.ts";
import { tellOf } from "../fixtures/last-rollouts.ts";
import { policy } from "../fixtures/paddock.ts";
import { requirePart } from "../fixtures/parts.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";

const owned = new AsyncDisposableStack();
let browser: Browser;
let paddock: Paddock;
let serving: Serving;
let client: Client;

beforeAll(async () => {
	const home = await mkdtemp(join(tmpdir(), "paddock-console-"));
	owned.defer(() => rm(home, { recursive: true, force: true }));
	const config = loadConfig({ ...process.env, PADDOCK_HOME: home, PADDOCK_CONCURRENCY: "2" }, home);
	paddock = owned.use(await openPaddock(config));
	owned.use(tellOf(paddock));
	const worker = await paddock.work();
	owned.defer(() => worker.drain(0));
	serving = owned.use(await serve(paddock, { host: "127.0.0.1", port: 0 }));
	client = createClient({ baseUrl: serving.url });
	browser = await openBrowser().catch(() => null as unknown as Browser);
	if (browser !== null) owned.defer(() => browser.close());
});
afterAll(() => owned.disposeAsync());

const web = (path: string) => `${serving.url}/web${path}`;
const waiting = { timeout: 150_000 };

async function transcriptOf(page: Page): Promise<string> {
	return (await page.getByTestId("transcript").textContent()) ?? "";
}

test("a rollout launched from the form is watched to its reward, over a reload, down to its tokens", async (context) => {
	requireBrowser(context);
	const { local } = await paddock.sandboxes();
	requirePart(context, "the local sandbox", local?.ok === true, "paddock doctor says what is missing");
	await using tab = await visit(browser, web("/launch"));
	const { page } = tab;
	await page.getByLabel("Solution").fill("sleep 2; echo hello > hello.txt");
	await page.getByRole("button", { name: "Run 1 now" }).click();
	await page.waitForURL(/\/web\/rollouts\/ro_/);
	await page.getByText("Write the word hello").first().waitFor(waiting);
	await page.reload();
	// Nothing is lost, and what comes later comes without another reload.
	await page.getByText("● completed").waitFor(waiting);
	expect(await transcriptOf(page)).toContain("sleep 2; echo hello > hello.txt");
	expect(await page.locator(".reward.large").textContent()).toContain("1.00");
	expect(await page.locator(".axis .span").count()).toBeGreaterThan(5);
	await page
		.locator(".inspector", { hasText: "grep -qx hello hello.txt" })
		.getByText("It printed nothing.")
		.waitFor();

	await page.getByRole("tab", { name: "Files" }).click();
	await page.locator(".patch .add", { hasText: "hello" }).waitFor();
	await page.getByRole("tab", { name: "Tokens" }).click();
	await page.getByText("Trainable", { exact: true }).waitFor();
	expect(await page.locator(".tokens .l1, .tokens .l2, .tokens .l3, .tokens .l4").count()).toBeGreaterThan(2);
	await page.locator(".tokens .line [data-run]").nth(1).hover();
	await page.getByText(/logprob -?\d/).waitFor();
	expect(page.url()).toContain("tab=tokens");
	expect(tab.troubles).toEqual([]);
});

test("a permission card is answered, and what the agent prints harms nothing", async (context) => {
	requireBrowser(context);
	const nasty = [
		"<script>window.harmed=1</script><img src=x onerror='window.harmed=2'>",
		"![pixel](http://tracker.invalid/p.png) [click](javascript:window.harmed=3)",
		"left\u202eright \u001b[31mred\u001b[0m \u001b]0;title\u0007",
	].join("\n\n");
	await using model = await openScriptedModel([
		bash("printf '\\033[2Jgone<b>bold</b>'"),
		bash("head -c 5000000 /dev/zero | tr '\\0' x"),
		say(nasty),
	]);
	const { rollouts } = await client.submit({
		task: task({ id: "nasty<b>", verify: ["true"] }),
		endpoint: model.endpoint,
		agent: { permission: "ask" },
	});
	await using tab = await visit(browser, web(`/rollouts/${rollouts[0]!.id}`));
	const { page } = tab;
	await page.getByRole("button", { name: "Allow once" }).click(waiting);
	await page.getByText("✓ allowed").first().waitFor(waiting);
	await page.getByRole("button", { name: "Always" }).click(waiting);
	await page.getByText("● completed").waitFor(waiting);
	const text = await transcriptOf(page);
	expect(text).toContain("<script>window.harmed=1</script>");
	expect(text).toContain("⟨202e⟩");
	expect(text).not.toContain("\u001b");
	await page.locator(".tool summary").first().click();
	await page.getByText("gone<b>bold</b>", { exact: true }).waitFor();
	expect(await page.evaluate(() => (globalThis as { harmed?: number }).harmed)).toBeUndefined();
	expect(await page.locator("main img").count()).toBe(0);
	expect(tab.troubles).toEqual([]);
});

test("a running rollout is aborted by its button", async (context) => {
	requireBrowser(context);
	await using model = await openScriptedModel([bash("sleep 300"), say("done")]);
	const { rollouts } = await client.submit({ task: task({ verify: ["true"] }), endpoint: model.endpoint });
	await using tab = await visit(browser, web(`/rollouts/${rollouts[0]!.id}`));
	await tab.page.locator(".tool summary", { hasText: "sleep 300" }).waitFor(waiting);
	await tab.page.getByRole("button", { name: "Abort" }).click();
	await tab.page.getByText("○ aborted").waitFor(waiting);
});

test("a group of four is compared side by side, and the list is filtered by its address", async (context) => {
	requireBrowser(context);
	const { group, rollouts } = await client.submit({
		task: task({ id: "four", verify: ["true"] }),
		endpoint: policy("noop"),
		n: 4,
	});
	await using tab = await visit(browser, web(`/groups/${group!.id}`));
	const { page } = tab;
	await page.getByText("4 of 4 done").waitFor({ timeout: 170_000 });
	await page.getByText("pass@4").waitFor();
	await page.getByLabel("compare member 1").check();
	await page.getByLabel("compare member 3").check();
	await page.locator(".side-by-side section").nth(1).waitFor();

	await page.goto(web("/rollouts"));
	await page.getByLabel("Search").fill("four");
	await page.getByLabel("Search").press("Enter");
	await page.waitForURL(/text=four/);
	await expect.poll(() => page.locator("tbody tr:not([aria-hidden])").count()).toBe(4);
	await page.locator("h1").click();
	await page.keyboard.press("j");
	await page.keyboard.press("Enter");
	await page.waitForURL(new RegExp(`/rollouts/(${rollouts.map((row) => row.id).join("|")})`));
	const first = page.url();
	await page.getByRole("tab", { name: "Verify" }).waitFor();
	await page.keyboard.press("]");
	await page.waitForURL((url) => url.href !== first && url.pathname.includes("/rollouts/ro_"));
	expect(tab.troubles).toEqual([]);
});

test("no page has serious findings of accessibility, light or dark, wide or narrow", async (context) => {
	requireBrowser(context);
	const { items } = await client.list({ limit: 1, status: "done", outcome: "completed" });
	const groups = await client.groups({ limit: 1 });
	requirePart(context, "a finished rollout", items.length > 0, "the tests before this one make it");
	const id = items[0]!.id;
	const paths = [
		"/",
		"/rollouts",
		"/groups",
		"/compare",
		"/launch",
		"/machine",
		"/chat",
		`/groups/${groups.items[0]!.id}`,
	].concat(
		["verify", "files", "calls", "tokens", "logs", "events", "facts"].map(
			(tab) => `/rollouts/${id}?tab=${tab}`,
		),
	);
	for (const look of [{}, { dark: true }, { phone: true }, { dark: true, phone: true }]) {
		await using tab = await visit(browser, web("/"), look);
		for (const path of paths) {
			await tab.page.goto(web(path));
			await tab.page.locator("h1").first().waitFor();
			expect({ path, look, found: await seriousFindings(tab.page) }).toEqual({ path, look, found: [] });
		}
		expect(tab.troubles).toEqual([]);
	}
});

test("a chat is begun, asks by a card that keys answer, answers twice, is closed and opened again with its key, and stops at Esc", async (context) => {
	requireBrowser(context);
	await using model = await openScriptedModel([
		bash("echo one > one.txt"),
		say("I wrote one."),
		say("And that was two."),
		say("And now three."),
		bash("sleep 300"),
		say("As you like."),
	]);
	await using tab = await visit(browser, web("/chat"));
	const { page } = tab;
	await page.getByLabel("Say something to a new agent").fill("Write one.");
	await page.getByLabel("Endpoint").selectOption("an address …");
	await page.getByLabel("Base URL").fill(model.endpoint.baseUrl);
	await page.getByLabel("Model name").fill(model.endpoint.model);
	await page.getByLabel("API key").fill(model.endpoint.apiKey);
	await page.getByRole("button", { name: "Begin" }).click();
	await page.getByRole("button", { name: "Allow once" }).waitFor(waiting);
	await page.locator("h1").click();
	await page.keyboard.press("a");
	await page.getByText("I wrote one.").waitFor(waiting);
	await page.getByLabel("Say something to the agent").fill("Two?");
	await page.getByLabel("Say something to the agent").press("Enter");
	await page.getByText("And that was two.").waitFor(waiting);
	expect(await transcriptOf(page)).toMatch(/Write one\..*I wrote one\..*Two\?.*And that was two\./s);
	await page.getByRole("button", { name: "Close" }).click();
	await page.getByRole("button", { name: "Open again" }).waitFor(waiting);
	// The key was erased at the close.
	await page.getByRole("button", { name: "Open again" }).click();
	await page.getByText("send it again as apiKey").waitFor(waiting);
	await page.getByLabel("API key").fill(model.endpoint.apiKey);
	await page.getByRole("button", { name: "Open again" }).click();
	await page.getByLabel("Say something to the agent").fill("Three?");
	await page.getByLabel("Say something to the agent").press("Enter");
	await page.getByText("And now three.").waitFor(waiting);
	await page.getByLabel("Say something to the agent").fill("Wait.");
	await page.getByLabel("Say something to the agent").press("Enter");
	await page.getByRole("button", { name: "Allow once" }).click(waiting);
	await page.getByText("✓ allowed bash sleep 300").waitFor(waiting);
	await page.keyboard.press("Escape");
	await page.getByText("the turn ended: interrupted").waitFor(waiting);
	await page.getByRole("button", { name: "Close" }).click();
	expect(tab.troubles).toEqual([]);
});
