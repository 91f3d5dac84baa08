import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { createClient } from "../src/client/client.ts";
import { loadConfig } from "../src/config.ts";
import { openPaddock } from "../src/paddock.ts";
import { serve } from "../src/server/serve.ts";
import { loadTask } from "../src/task/load.ts";

/** `npm run screenshots`: every page of the console, light and dark, wide and narrow, into docs/screenshots. */
const root = join(import.meta.dirname, "..");
const out = join(root, "docs", "screenshots");
const home = await mkdtemp(join(tmpdir(), "paddock-screenshots-"));

await using stack = new AsyncDisposableStack();
stack.defer(() => rm(home, { recursive: true, force: true }));
const paddock = stack.use(
	await openPaddock(loadConfig({ ...process.env, PADDOCK_HOME: home, PADDOCK_TOKEN: undefined }, home)),
);
const worker = await paddock.work();
stack.defer(() => worker.drain(0));
const serving = stack.use(await serve(paddock, { host: "127.0.0.1", port: 0 }));
const client = createClient({ baseUrl: serving.url });

const example = (name: string) => loadTask(join(root, "examples", "tasks", name));
const say = (text: string) => process.stderr.write(`${text}\n`);

say("Running a few rollouts to look at …");
const policy = (name: string) => ({ type: "policy", policy: name }) as const;
const names = ["fix-failing-test", "csv-mean", "partial-score", "log-parser"];
const tasks = await Promise.all(names.map(example));
const { rolloutIds } = await client.submitBatch({ tasks, endpoints: [policy("oracle"), policy("noop")] });
const { group } = await client.submit({ task: await example("fizzbuzz"), endpoint: policy("oracle"), n: 4 });
const members = (await client.group(group!.id)).rollouts.map(({ id }) => id);
for (const id of [...rolloutIds, ...members]) await client.wait(id);

const { items } = await client.list({ task_id: "fix-failing-test", limit: 10 });
const rollout = items.find((row) => row.reward === 1) ?? items[0]!;
const pages: Record<string, string> = {
	home: "/",
	rollouts: "/rollouts",
	rollout: `/rollouts/${rollout.id}`,
	tokens: `/rollouts/${rollout.id}?tab=tokens`,
	files: `/rollouts/${rollout.id}?tab=files`,
	groups: "/groups",
	group: `/groups/${group!.id}`,
	compare: "/compare",
	launch: "/launch",
	machine: "/machine",
};

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
stack.defer(() => browser.close());
await mkdir(out, { recursive: true });
for (const colorScheme of ["light", "dark"] as const) {
	for (const [size, viewport] of Object.entries({
		wide: { width: 1280, height: 800 },
		phone: { width: 390, height: 800 },
	})) {
		const context = await browser.newContext({ colorScheme, viewport });
		const page = await context.newPage();
		for (const [name, path] of Object.entries(pages)) {
			await page.goto(`${serving.url}/web${path}`);
			await page.locator("h1").first().waitFor();
			await page.waitForLoadState("networkidle").catch(() => {});
			await page.screenshot({ path: join(out, `${name}-${colorScheme}-${size}.png`) });
		}
		await context.close();
		say(`${colorScheme}, ${size}`);
	}
}
