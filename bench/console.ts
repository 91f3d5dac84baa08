import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { createClient } from "../src/client/client.ts";
import type { ModelCall } from "../src/model/call.ts";
import type { EventBody } from "../src/model/event.ts";
import { serve } from "../src/server/serve.ts";
import { aCall } from "../test/export/calls.ts";
import { openBrowser, visit } from "../test/fixtures/browser.ts";
import { type IdlePaddock, openIdlePaddock } from "../test/fixtures/idle-paddock.ts";
import { fillSqlite } from "./store.ts";

const ROLLOUTS = 10_000;
const PARTS = 2_000;
const TOKENS = 200_000;
const FOLDER = join(import.meta.dirname, "../dist/web/assets");

/** The console in a real browser, with as much as it should bear: what is loaded, and how evenly it is drawn while one scrolls. */
export async function benchConsole(print: (line: string) => void): Promise<void> {
	print(await weight());
	const home = await mkdtemp(join(tmpdir(), "paddock-bench-"));
	await using stack = new AsyncDisposableStack();
	stack.defer(() => rm(home, { recursive: true, force: true }));
	await (await openIdlePaddock({ home }))[Symbol.asyncDispose]();
	fillSqlite(join(home, "paddock.db"), ROLLOUTS);
	const paddock = stack.use(await openIdlePaddock({ home }));
	const serving = stack.use(await serve(paddock, { host: "127.0.0.1", port: 0 }));
	const browser = await openBrowser();
	stack.defer(() => browser.close());
	const web = (path: string) => `${serving.url}/web${path}`;
	{
		await using tab = await visit(browser, web("/rollouts"));
		await tab.page.locator("tbody tr:not([aria-hidden])").first().waitFor();
		print(
			`${ROLLOUTS} rollouts, scrolled to the end: ${await scrolled(tab.page, ".scrolling.long", ROLLOUTS)}`,
		);
	}
	const client = createClient({ baseUrl: serving.url });
	const long = await submit(client);
	await converse(paddock, long);
	{
		await using tab = await visit(browser, web(`/rollouts/${long}`));
		await tab.page.getByTestId("transcript").locator(".entry").nth(3).waitFor();
		print(`a transcript of ${PARTS} parts: ${await scrolled(tab.page, null, 0)}`);
	}
	const branch = await submit(client);
	await paddock.complete(branch, 1, longBranch());
	{
		const startedAt = performance.now();
		await using tab = await visit(browser, web(`/rollouts/${branch}?tab=tokens`));
		await tab.page.locator(".tokens .line").nth(10).waitFor({ timeout: 120_000 });
		const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
		print(
			`a branch of ${TOKENS} tokens: shown after ${seconds} s; ${await scrolled(tab.page, ".token-scroller", 0)}`,
		);
	}
}

/** Everything that any page can load; the first one loads a part of it. */
async function weight(): Promise<string> {
	const names = await readdir(FOLDER);
	const sizes = await Promise.all(
		names.map(async (name) => gzipSync(await readFile(join(FOLDER, name))).length),
	);
	const total = sizes.reduce((sum, size) => sum + size, 0);
	return `all pages together: ${Math.round(total / 1000)} kB gzip in ${names.length} files`;
}

interface Frames {
	frames: number;
	median: number;
	p95: number;
	worst: number;
	slow: number;
	elements: number;
	rows: number;
}

/** Runs in the page. */
const SCROLL = `async (selector, wanted) => {
	const element = selector === null ? document.documentElement : document.querySelector(selector);
	const rows = () => Number(document.querySelector("table")?.getAttribute("aria-rowcount") ?? 0);
	const frames = [];
	const startedAt = performance.now();
	let [before, still] = [performance.now(), 0];
	while (performance.now() - startedAt < 180_000 && still < 60) {
		const at = element.scrollTop;
		element.scrollTop += 400;
		const now = await new Promise((drawn) => requestAnimationFrame(drawn));
		frames.push(now - before);
		before = now;
		still = element.scrollTop === at && rows() >= wanted ? still + 1 : 0;
	}
	frames.sort((left, right) => left - right);
	const quantile = (share) => frames[Math.floor((frames.length - 1) * share)];
	return {
		frames: frames.length,
		median: quantile(0.5),
		p95: quantile(0.95),
		worst: frames.at(-1),
		slow: frames.filter((frame) => frame > 50).length,
		elements: document.querySelectorAll("*").length,
		rows: rows(),
	};
}`;

/** Scrolls as a wheel does until the end is reached, and says how long frames took. `rows`: how many must come. */
async function scrolled(page: Page, place: string | null, rows: number): Promise<string> {
	const result = await page.evaluate<Frames>(`(${SCROLL})(${JSON.stringify(place)}, ${rows})`);
	const ms = (value: number) => `${value.toFixed(0)} ms`;
	return [
		`${result.frames} frames, median ${ms(result.median)}, 95 % below ${ms(result.p95)}, longest ${ms(result.worst)}`,
		`${((result.slow / result.frames) * 100).toFixed(1)} % above 50 ms`,
		`${result.elements} elements in the page${rows > 0 ? `, ${result.rows} rows loaded` : ""}`,
	].join("; ");
}

async function submit(client: ReturnType<typeof createClient>): Promise<string> {
	const { rollouts } = await client.submit({
		task: { id: "long", instruction: "Go on for long." },
		endpoint: { type: "policy", policy: "noop" },
	});
	return rollouts[0]!.id;
}

/** Words, thoughts, and tools with output, in turn. */
async function converse({ store }: IdlePaddock, id: string): Promise<void> {
	const { attempt } = (await store.begin(id, "bench"))!;
	await store.append(id, attempt, [{ type: "session-start", sessionId: "ses_1" }]);
	for (let from = 0; from < PARTS; from += 100) {
		const parts = Array.from({ length: 100 }, (_, index) => partOf(from + index));
		await store.append(id, attempt, parts);
	}
	await store.finish(id, attempt, { outcome: "completed", reward: 1, failure: null, summary: null });
}

function partOf(number: number): EventBody {
	const base = { id: `prt_${String(number).padStart(6, "0")}`, sessionID: "ses_1", messageID: "msg_1" };
	const text = `Part ${number}. ${"The test fails, since the parser drops the last line. ".repeat(1 + (number % 5))}`;
	const state = {
		status: "completed",
		input: { command: `npm test -- ${number}` },
		output: `${"ok 1 - parses\n".repeat(number % 40)}`,
		time: { start: number, end: number + 900 },
	};
	const part =
		number % 3 === 2
			? { ...base, type: "tool", tool: "bash", callID: `call_${number}`, state }
			: { ...base, type: number % 3 === 1 ? "reasoning" : "text", text };
	return { type: "agent-event", name: "message.part.updated", properties: { part } };
}

/** Ten calls that go on from each other. */
function longBranch(): ModelCall[] {
	const calls: ModelCall[] = [];
	let ids: number[] = [1, 2, 3];
	for (let index = 0; index < 10; index += 1) {
		const completionIds = Array.from({ length: TOKENS / 10 }, (_, at) => 10 + ((at * 7 + index) % 5000));
		calls.push(
			aCall({
				index,
				promptIds: ids,
				completionIds,
				completionTexts: completionIds.map((id, at) => (at % 14 === 13 ? "\n" : ` w${id}`)),
				logprobs: completionIds.map((id) => -8 * ((id % 97) / 97) ** 4),
			}),
		);
		ids = [...ids, ...completionIds, 4];
	}
	return calls;
}

if (import.meta.main) await benchConsole((line) => console.log(line));
