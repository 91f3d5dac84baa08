import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { loadConfig } from "../../src/config.ts";
import { openPaddock } from "../../src/paddock.ts";
import { type Serving, serve } from "../../src/server/serve.ts";
import { openBrowser, requireBrowser, visit } from "../fixtures/browser.ts";

const TOKEN = "a-token-of-the-test";

async function openServer(home: string, port: number, env: Record<string, string> = {}) {
	const paddock = await openPaddock(loadConfig({ ...process.env, PADDOCK_HOME: home, ...env }, home));
	const serving: Serving = await serve(paddock, { host: "127.0.0.1", port });
	return {
		url: serving.url,
		port: Number(new URL(serving.url).port),
		async [Symbol.asyncDispose]() {
			await serving[Symbol.asyncDispose]();
			await paddock[Symbol.asyncDispose]();
		},
	};
}

test("the page asks for the token, keeps it for the tab alone, and shows no window of the browser's", async (context) => {
	requireBrowser(context);
	const home = await mkdtemp(join(tmpdir(), "paddock-console-"));
	{
		await using server = await openServer(home, 0, { PADDOCK_TOKEN: TOKEN });
		await using browser = { it: await openBrowser(), [Symbol.asyncDispose]: () => browser.it.close() };
		await using tab = await visit(browser.it, `${server.url}/web/`);
		const { page } = tab;
		const challenges: (string | null)[] = [];
		page.on("response", async (response) => {
			if (response.status() === 401) challenges.push(await response.headerValue("www-authenticate"));
		});
		await page.getByLabel("Token").fill("a-wrong-token");
		await page.getByRole("button", { name: "Go on" }).click();
		await page.getByLabel("Token").fill(TOKEN);
		await page.getByRole("button", { name: "Go on" }).click();
		await page.getByText("No rollout yet").waitFor();
		expect(page.url()).not.toContain(TOKEN);
		expect(await page.evaluate("JSON.stringify({ ...localStorage }) + document.cookie")).not.toContain(TOKEN);
		for (const challenge of challenges) expect(challenge).toBe("Bearer");
		expect((await fetch(`${server.url}/api/v1/rollouts`)).headers.get("www-authenticate")).toContain("Basic");
	}
	await rm(home, { recursive: true, force: true });
});

test("a server restarted underneath is found again without a reload", async (context) => {
	requireBrowser(context);
	const home = await mkdtemp(join(tmpdir(), "paddock-console-"));
	{
		await using browser = { it: await openBrowser(), [Symbol.asyncDispose]: () => browser.it.close() };
		const first = await openServer(home, 0);
		await using tab = await visit(browser.it, `${first.url}/web/`);
		await tab.page.getByText("No rollout yet").waitFor();
		await first[Symbol.asyncDispose]();
		await tab.page.getByText("the server does not answer").waitFor();
		await using _second = await openServer(home, first.port);
		await tab.page.getByText("the server does not answer").waitFor({ state: "detached" });
		await tab.page.getByText("No rollout yet").waitFor();
	}
	await rm(home, { recursive: true, force: true });
});

test("the first page weighs less than 250 kB", async () => {
	const folder = join(import.meta.dirname, "../../dist/web/assets");
	let bytes = 0;
	// Everything there is: the first page loads a part of it.
	for (const name of await readdir(folder)) bytes += gzipSync(await readFile(join(folder, name))).length;
	expect(bytes).toBeLessThan(250_000);
});

test("only files of the console are handed out, and under a strict policy", async () => {
	const home = await mkdtemp(join(tmpdir(), "paddock-console-"));
	{
		await using server = await openServer(home, 0);
		const get = (path: string) => fetch(server.url + path, { redirect: "manual" });
		expect((await get("/")).headers.get("location")).toBe("/web/");
		const page = await get("/web/rollouts/anything");
		expect(page.headers.get("content-security-policy")).toMatch(/default-src 'none'.*script-src 'self'/);
		expect(await page.text()).toContain('<div id="root">');
		for (const path of ["/web/assets/..%2f..%2findex.html", "/web/assets/none.js"])
			expect((await get(path)).status).toBe(404);
	}
	await rm(home, { recursive: true, force: true });
});
