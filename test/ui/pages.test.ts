import { readFile } from "node:fs/promises";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { ModelCall } from "../../src/model/call.ts";
import { type Serving, serve } from "../../src/server/serve.ts";
import { aCall } from "../export/calls.ts";
import { openBrowser, requireBrowser, visit } from "../fixtures/browser.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";

/** The pages on rollouts that nobody had to run: the test plays the worker. */
const owned = new AsyncDisposableStack();
let paddock: IdlePaddock;
let serving: Serving;
let client: Client;
let browser: Browser;
let forked: string;
let groupId: string;

beforeAll(async () => {
	paddock = owned.use(await openIdlePaddock());
	serving = owned.use(await serve(paddock, { host: "127.0.0.1", port: 0 }));
	client = createClient({ baseUrl: serving.url });
	for (const [index, model] of ["alpha", "beta"].entries()) {
		const { rollouts, group } = await client.submit({
			task: { id: `task-${index}`, instruction: `Fix parser number ${index}.` },
			endpoint: { type: "url", baseUrl: "http://127.0.0.1:9/v1", model },
			n: 4,
		});
		for (const [at, row] of rollouts.entries()) await paddock.complete(row.id, at / 4, callsOf(at));
		groupId = group!.id;
		forked = rollouts[0]!.id;
	}
	await client.submit({
		task: { id: "waiting", instruction: "Wait." },
		endpoint: { type: "policy", policy: "noop" },
		n: 2,
	});
	browser = await openBrowser().catch(() => null as unknown as Browser);
	if (browser !== null) owned.defer(() => browser.close());
});
afterAll(() => owned.disposeAsync());

/** Two calls; the second does not go on where the first ended, so that there are two branches. */
function callsOf(member: number): ModelCall[] {
	const texts = ["I", " fixed", " it"];
	const alternatives = texts.map((token) => [
		{ token, logprob: -0.2 },
		{ token: " nothing", logprob: -1.8 },
	]);
	const first = aCall({
		index: 0,
		promptIds: [1, 2, 3],
		completionIds: [10, 11, 12],
		completionTexts: texts,
	});
	const said = { role: "assistant", content: `fixed ${member}` };
	return [
		{ ...first, alternatives },
		aCall({
			index: 1,
			promptIds: [1, 2, 3, 10, 99, 12, 5],
			completionIds: [10, 13],
			completionTexts: ["I", " know"],
			response: { message: said, finishReason: "stop" },
		}),
	];
}

const web = (path: string) => `${serving.url}/web${path}`;
const rowsOf = (page: Page) => page.locator("tbody tr:not([aria-hidden])");

test("the list is searched, filtered by model and by its histogram, and sorted; all of it in the address", async (context) => {
	requireBrowser(context);
	await using tab = await visit(browser, web("/rollouts"));
	const { page } = tab;
	await expect.poll(() => rowsOf(page).count()).toBe(10);
	await page.keyboard.press("/");
	await page.keyboard.type("pars numb");
	await page.keyboard.press("Enter");
	await expect.poll(() => rowsOf(page).count()).toBe(8);
	await page.getByLabel("model", { exact: true }).selectOption("beta");
	await expect.poll(() => rowsOf(page).count()).toBe(4);

	const bars = page.locator(".brush").first().locator(".bar");
	const [from, to] = [await bars.nth(9).boundingBox(), await bars.nth(19).boundingBox()];
	await page.mouse.move(from!.x + 2, from!.y + 10);
	await page.mouse.down();
	await page.mouse.move(to!.x + 2, to!.y + 10, { steps: 5 });
	await page.mouse.up();
	await page.waitForURL(/min_reward=0\.45/);
	await expect.poll(() => rowsOf(page).count()).toBe(2);
	await page.locator("th button", { hasText: "reward" }).click();
	await page.waitForURL(/order=highest-reward/);
	await expect.poll(() => rowsOf(page).first().textContent()).toContain("0.75");
	await page.reload();
	await expect.poll(() => rowsOf(page).count()).toBe(2);
	expect(page.url()).toMatch(/text=pars\+numb.*model=beta|model=beta.*text=pars\+numb/);
	await page.getByRole("button", { name: "no longer by reward" }).click();
	await expect.poll(() => rowsOf(page).count()).toBe(4);
	expect(tab.troubles).toEqual([]);
});

test("new rollouts announce themselves, and chosen ones are exported or aborted", async (context) => {
	requireBrowser(context);
	await using tab = await visit(browser, web("/rollouts?model=alpha"));
	const { page } = tab;
	await expect.poll(() => rowsOf(page).count()).toBe(4);
	await page.locator("tbody input[type=checkbox]").first().check();
	const [download] = await Promise.all([
		page.waitForEvent("download"),
		page.getByRole("button", { name: "Export 1" }).click(),
	]);
	const lines = (await readFile(await download.path(), "utf8")).trim().split("\n");
	expect(lines.map((line) => (JSON.parse(line) as { task_id: string }).task_id)).toEqual([
		"task-0",
		"task-0",
	]);

	const { rollouts } = await client.submit({
		task: { id: "late", instruction: "Late." },
		endpoint: { type: "url", baseUrl: "http://127.0.0.1:9/v1", model: "alpha" },
	});
	await page.getByRole("button", { name: "1 new" }).click({ timeout: 20_000 });
	await expect.poll(() => rowsOf(page).count()).toBe(5);
	await page.getByLabel(`choose ${rollouts[0]!.id}`).check();
	await page.getByRole("button", { name: "Abort 1" }).click();
	await page.getByText("○ aborted").waitFor({ timeout: 20_000 });
	expect(tab.troubles).toEqual([]);
});

test("home draws rewards, outcomes, phases and tokens from the store's statistics", async (context) => {
	requireBrowser(context);
	await using tab = await visit(browser, web("/"));
	const { page } = tab;
	for (const title of ["Reward", "Ended, by outcome", "Seconds in each phase", "Tokens"])
		await page.locator("figure", { hasText: title }).locator("canvas").first().waitFor();
	await page.getByText("completed 8").waitFor();
	await page.getByRole("button", { name: "hour" }).click();
	await page.waitForURL(/range=1h/);
	await page.getByText("completed 8").waitFor();
	expect(tab.troubles).toEqual([]);
});

test("a branch shows alternatives, the tokens at its break, and what is known of its prompt", async (context) => {
	requireBrowser(context);
	await using tab = await visit(browser, web(`/rollouts/${forked}?tab=tokens`));
	const { page } = tab;
	await page.locator(".tokens .line [data-run]").last().hover();
	await page.locator(".alternatives", { hasText: "nothing" }).waitFor();
	await page.locator(".branches button").nth(1).click();
	await page.locator(".break", { hasText: "broke off at position 4" }).waitFor();
	expect(await page.locator(".break .differs").allTextContents()).toContain("⟨99⟩");
	await page.getByLabel("Prompts").selectOption("tokens");
	await page.getByText(/Of 7 prompt tokens 2 have a known text/).waitFor();
	await page.getByLabel("Prompts").selectOption("messages");
	await page.getByText("⟦user⟧ hello").waitFor();
	expect(tab.troubles).toEqual([]);
});

test("a group shows advantage, length, mean logprob and where members part", async (context) => {
	requireBrowser(context);
	await using tab = await visit(browser, web(`/groups/${groupId}`));
	const { page } = tab;
	await expect.poll(() => rowsOf(page).count()).toBe(4);
	const second = await rowsOf(page).nth(1).textContent();
	expect(second).toContain("at call 2");
	expect(second).toMatch(/−0\.45/);
	expect(second).toContain("-0.450");
	expect(tab.troubles).toEqual([]);
});

test("launch begins with an example, and keeps what the form has no field for", async (context) => {
	requireBrowser(context);
	await using tab = await visit(browser, web("/launch"));
	const { page } = tab;
	await page.getByRole("button", { name: "partial-score" }).click();
	await expect.poll(() => page.getByLabel("Task", { exact: true }).inputValue()).toBe("partial-score");
	await page.getByRole("button", { name: "Run 1 now" }).click();
	await page.waitForURL(/\/web\/rollouts\/ro_/);
	const { request } = await client.get(page.url().split("/").at(-1)!);
	const example = (await client.examples()).items.find(({ id }) => id === "partial-score");
	expect(request.task).toEqual(example);
	expect(tab.troubles).toEqual([]);
});

test("the list keeps every row while new ones come, each 32 pixels high, to its very end", async (context) => {
	requireBrowser(context);
	const many = (n: number) =>
		client.submit({
			...{ task: { id: "many", instruction: "Wait." }, endpoint: { type: "policy", policy: "noop" }, n },
		});
	const { rollouts } = await many(205);
	await using tab = await visit(browser, web("/rollouts?task_id=many"));
	const { page } = tab;
	const count = () => page.locator("table.rollouts").getAttribute("aria-rowcount");
	const scroll = () => page.locator(".scrolling.long").evaluate((list) => list.scrollTo(0, 1e6));
	await expect.poll(count, { timeout: 5000 }).toBe("200");
	await many(3);
	await page.getByRole("button", { name: "3 new" }).click();
	await expect.poll(count).toBe("203");
	await scroll();
	await expect.poll(count).toBe("208");
	await scroll();
	const last = page.getByLabel(`choose ${rollouts[0]!.id}`).locator("xpath=ancestor::tr");
	await last.scrollIntoViewIfNeeded();
	expect(await last.evaluate((row) => row.getBoundingClientRect().height)).toBe(32);
	const heightPx = await page.locator("table.rollouts tbody").evaluate((body) => body.clientHeight);
	expect(heightPx).toBe(208 * 32);
	expect(tab.troubles).toEqual([]);
});

test("a group shows all of its members, however many they are", async (context) => {
	requireBrowser(context);
	const { group } = await client.submit({
		...{ task: { id: "large", instruction: "Wait." }, endpoint: { type: "policy", policy: "noop" }, n: 510 },
	});
	await using tab = await visit(browser, web(`/groups/${group!.id}`));
	await expect.poll(() => rowsOf(tab.page).count()).toBe(510);
	await tab.page.goto(web("/groups"));
	const row = tab.page.locator("table.groups tr", { hasText: "large" });
	await row.getByText("0 of 510").waitFor();
	expect(await row.textContent()).toContain("noop");
	expect(tab.troubles).toEqual([]);
});
