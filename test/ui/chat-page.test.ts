import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import { loadConfig } from "../../src/config.ts";
import { openPaddock, type Paddock } from "../../src/paddock.ts";
import { type Serving, serve } from "../../src/server/serve.ts";
import { openBrowser, requireBrowser, seriousFindings, visit } from "../fixtures/browser.ts";
import { requirePart } from "../fixtures/parts.ts";
import { bash, openScriptedModel, say } from "../fixtures/script.ts";

/** The page of a chat, with a real agent behind it. */
const owned = new AsyncDisposableStack();
let browser: Browser;
let paddock: Paddock;
let serving: Serving;
let client: Client;

beforeAll(async () => {
	const home = await mkdtemp(join(tmpdir(), "paddock-console-"));
	owned.defer(() => rm(home, { recursive: true, force: true }));
	paddock = owned.use(await openPaddock(loadConfig({ ...process.env, PADDOCK_HOME: home }, home)));
	const worker = await paddock.work();
	owned.defer(() => worker.drain(0));
	serving = owned.use(await serve(paddock, { host: "127.0.0.1", port: 0 }));
	client = createClient({ baseUrl: serving.url });
	browser = await openBrowser().catch(() => null as unknown as Browser);
	if (browser !== null) owned.defer(() => browser.close());
});
afterAll(() => owned.disposeAsync());

const waiting = { timeout: 150_000 };

test("a person refuses with a reason, answers a question, gets a file, changes the model and interrupts", async (context) => {
	requireBrowser(context);
	const { local } = await paddock.sandboxes();
	requirePart(context, "the local sandbox", local?.ok === true, "paddock doctor says what is missing");
	const options = [
		{ label: "red", description: "as a rose" },
		{ label: "blue", description: "" },
	];
	const question = { question: "Which colour?", header: "Colour", options };
	await using model = await openScriptedModel([
		bash("rm -rf build"),
		{ calls: [{ tool: "question", args: { questions: [question] } }] },
		bash("echo red > colour.txt"),
		say("It is red."),
		bash("sleep 300"),
		say("never said"),
	]);
	const { id } = await client.converse({
		endpoint: model.endpoint,
		text: "Choose a colour.",
		by: "ada",
		agent: { permission: "ask" },
		deliverables: ["*.txt"],
		labels: { title: "A colour" },
	});
	await using tab = await visit(browser, `${serving.url}/web/chat/${id}`);
	const { page } = tab;
	await page.getByRole("heading", { name: "A colour" }).waitFor();
	await page.getByLabel("Why it is rejected").fill("keep the build", waiting);
	for (const dark of [false, true]) {
		await page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
		expect({ dark, found: await seriousFindings(page) }).toEqual({ dark, found: [] });
	}
	await page.getByRole("button", { name: "Reject" }).click();
	await page.getByText("✕ refused").waitFor(waiting);
	await page
		.locator(".tool", { hasText: "rm -rf build" })
		.getByText(/keep the build/)
		.first()
		.waitFor(waiting);

	await page.getByLabel("red").check(waiting);
	await page.getByRole("button", { name: "Answer" }).click();
	await page.getByText("answered by console").waitFor(waiting);

	await page.getByRole("button", { name: "Allow once" }).click(waiting);
	await page.getByText("It is red.").waitFor(waiting);
	await page.getByRole("tab", { name: "Files" }).click();
	await page.locator(".inspector", { hasText: "colour.txt" }).getByText("4 B").waitFor(waiting);
	const [download] = await Promise.all([
		page.waitForEvent("download"),
		page.getByRole("button", { name: "save" }).click(),
	]);
	expect(download.suggestedFilename()).toBe("colour.txt");

	await page.getByLabel("Another model").fill("another-model");
	await page.getByRole("button", { name: "Change model" }).click();
	await page.getByText("console chose the model another-model").waitFor(waiting);
	await page.locator(".strip").getByText("another-model").waitFor();
	await page.getByLabel("Another model").fill(model.endpoint.model);
	await page.getByRole("button", { name: "Change model" }).click();
	await page.getByText(`console chose the model ${model.endpoint.model}`).waitFor(waiting);

	await page.getByLabel("Say something to the agent").fill("Now rest.");
	await page.getByLabel("Say something to the agent").press("Enter");
	await page.getByRole("button", { name: "Allow once" }).click(waiting);
	await page.locator(".tool summary", { hasText: "sleep 300" }).waitFor(waiting);
	await page.locator("h1").click();
	await page.keyboard.press("Escape");
	await page.getByText("the turn ended: interrupted").waitFor(waiting);
	expect(page.url()).toContain(id);
	expect(tab.troubles).toEqual([]);
});
