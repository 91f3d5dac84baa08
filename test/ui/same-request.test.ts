import { execFile, spawnSync } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client as McpClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { Rollout } from "../../src/model/rollout.ts";
import { toCommandLine } from "../../src/ui/data/same-command-line.ts";
import { type LaunchRequest, toCurl, toMcp, toPython } from "../../src/ui/data/same-request.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { requirePart } from "../fixtures/parts.ts";
import { type OpenDoors, serveDoors } from "../openenv/doors.ts";

const ROOT = join(import.meta.dirname, "../..");
const PYTHON = process.env.PADDOCK_PYTHON ?? "python3";

let paddock: IdlePaddock;
let doors: OpenDoors;
let client: Client;
let folder: string;

beforeAll(async () => {
	paddock = await openIdlePaddock();
	doors = await serveDoors(paddock);
	client = createClient({ baseUrl: doors.url });
	// Where `npx paddock` finds this checkout's program, as in a folder where the package is installed.
	folder = await mkdtemp(join(tmpdir(), "paddock-same-"));
	await mkdir(join(folder, "node_modules/.bin"), { recursive: true });
	await symlink(join(ROOT, "bin/paddock.mjs"), join(folder, "node_modules/.bin/paddock"));
});
afterAll(async () => {
	await doors[Symbol.asyncDispose]();
	await paddock[Symbol.asyncDispose]();
	await rm(folder, { recursive: true, force: true });
});

/** Everything in it would break a careless quotation. */
const AWKWARD = `Say "it's" $HOME \`id\` \\ 100 % ½ — “quoted”\nTASK\nsecond line`;

const scripted: LaunchRequest = {
	task: {
		id: "same-everywhere",
		instruction: AWKWARD,
		setup: ["echo 'one'", 'printf "%s\\n" "$PWD"'],
		verify: [`grep -q "it's" out.txt`, "true"],
		solution: [{ tool: "bash", command: AWKWARD }],
		clocks: { agentS: 77 },
		box: { network: "none" },
	},
	endpoint: { type: "policy", policy: "oracle" },
	sandbox: "local",
	mode: "black_box",
	sampling: { temperature: 0.5 },
	n: 1,
};
const elsewhere: LaunchRequest = {
	...scripted,
	endpoint: {
		type: "url",
		baseUrl: "http://127.0.0.1:9/v1",
		model: "it's/a model",
		apiKey: "sk-of-the-test",
	},
	task: {
		...scripted.task,
		files: [{ path: "a b/c.txt", content: AWKWARD }],
		tests: [{ path: "test.sh", content: "#!/bin/sh\nexit 0\n", executable: true }],
		budget: { maxCalls: 9 },
	},
	agent: { permission: "ask" },
	sampling: { temperature: 0.5, topP: 0.9, maxTokensCap: 99, topLogprobs: 3 },
};

const tuned: LaunchRequest = {
	task: { id: "tuned", instruction: "Do it.", budget: { maxTotalTokens: 9000 } },
	endpoint: {
		...{ type: "url", baseUrl: "http://127.0.0.1:9/v1", model: "m", dialect: "plain" },
		...{ logprobsMode: "raw_logprobs", weightVersion: "step 4" },
	},
	sandbox: "ssh:far",
	agent: { driver: "run", permission: "deny", permissionRules: [{ tool: "bash", action: "allow" }] },
	sampling: { continuity: "off", keepReasoning: true, disableThinking: true, seed: 7, topK: 40 },
	priority: 3,
	labels: { run: "4" },
	n: 1,
};

/** What the API itself makes of the request, without what each surface says of its own. */
async function expected(request: LaunchRequest) {
	const { rollouts } = await client.submit(request);
	return requestOf(await client.get(rollouts[0]!.id));
}

function requestOf({ request: { labels: _labels, maxAttempts: _attempts, ...request } }: Rollout) {
	return request;
}

/** Runs it until its rollouts are stored; then they are aborted, so that whoever waits for them can end. */
async function madeBy(run: () => Promise<unknown>, count = 1) {
	const before = new Set<string>();
	for await (const row of client.listAll()) before.add(row.id);
	const running = run();
	let failure: unknown = null;
	running.catch((error) => {
		failure = error;
	});
	const fresh = async () => (await client.list({ limit: 100 })).items.filter((row) => !before.has(row.id));
	await expect
		.poll(async () => failure ?? (await fresh()).length, { timeout: 110_000, interval: 200 })
		.toBe(count);
	const made = await fresh();
	for (const row of made) await client.abort(row.id);
	await running;
	return await Promise.all(made.map(async (row) => requestOf(await client.get(row.id))));
}

function shell(script: string, env: Record<string, string> = {}): Promise<string> {
	return new Promise((resolve, reject) => {
		const options = { cwd: folder, env: { ...process.env, API_KEY: "sk-of-the-test", ...env } };
		execFile("bash", ["-ec", script], options, (error, out, said) => {
			// Aborted rollouts are no success of a run; whatever else it ends with is said.
			if (error && error.code !== 1) reject(new Error(`${error.message}\n${out}\n${said}`));
			else resolve(out);
		});
	});
}

function requirePython(context: TestContext): void {
	const present = spawnSync(PYTHON, ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).status === 0;
	requirePart(context, "Python 3.10 or later", present, "install python3, or name it by PADDOCK_PYTHON");
}

const REQUESTS = [
	{ what: "a policy", request: scripted },
	{ what: "an address with a key, files and tests", request: elsewhere },
	{ what: "much that can be tuned", request: tuned },
];

test.for(REQUESTS)("the copied curl makes the same request: $what", async ({ request }) => {
	const { text, missing } = toCurl(request, doors.url);
	expect(missing).toEqual([]);
	expect(text).not.toContain("sk-of-the-test");
	const [made] = await madeBy(() => shell(text));
	expect(made).toEqual(await expected(request));
});

test.for(REQUESTS)("the copied Python makes the same request: $what", async ({ request }, context) => {
	requirePython(context);
	const { text, missing } = toPython(request, doors.url);
	expect(missing).toEqual([]);
	expect(text).not.toContain("sk-of-the-test");
	await writeFile(join(folder, "same.py"), text);
	const [made] = await madeBy(() => shell(`${PYTHON} same.py`, { PYTHONPATH: join(ROOT, "python") }));
	expect(made).toEqual(await expected(request));
});

test("a group copied as Python is a group", async (context) => {
	requirePython(context);
	const { text } = toPython({ ...scripted, n: 3 }, doors.url);
	await writeFile(join(folder, "group.py"), text);
	const made = await madeBy(() => shell(`${PYTHON} group.py`, { PYTHONPATH: join(ROOT, "python") }), 3);
	expect(made).toHaveLength(3);
});

test("the copied command line makes the same request, and says what it has no flag for", async () => {
	const plain = toCommandLine({ ...scripted, n: 2 }, doors.url);
	expect(plain.missing).toEqual([]);
	const made = await madeBy(() => shell(plain.text), 2);
	expect(made[0]).toEqual(await expected(scripted));

	const more = toCommandLine(elsewhere, doors.url);
	expect(more.missing).toEqual(["sampling.topP", "sampling.maxTokensCap"]);
	expect(more.text).not.toContain("sk-of-the-test");
	const [other] = await madeBy(() => shell(more.text));
	const sampling = { temperature: 0.5, topLogprobs: 3 };
	expect(other).toEqual(await expected({ ...elsewhere, sampling }));
});

test("the copied MCP call makes the same request, and says what it has no argument for", async () => {
	const mcp = new McpClient({ name: "test", version: "1" });
	await mcp.connect(new StreamableHTTPClientTransport(new URL(`${doors.url}/mcp`)));
	const call = (text: string) => mcp.callTool(JSON.parse(text) as { name: string });
	const plain = toMcp(scripted);
	expect(plain.missing).toEqual([]);
	expect((await madeBy(() => call(plain.text)))[0]).toEqual(await expected(scripted));

	const more = toMcp({ ...elsewhere, n: 4 });
	expect(more.missing).toEqual([
		"n (call it 4 times)",
		...["files", "tests", "budget.maxCalls", "sampling.topP"],
		"the key (write it in as api_key)",
	]);
	const { files: _files, tests: _tests, budget: _budget, ...task } = elsewhere.task;
	const { topP: _topP, ...sampling } = elsewhere.sampling!;
	const { apiKey: _key, ...endpoint } = elsewhere.endpoint as {
		type: "url";
		baseUrl: string;
		model: string;
		apiKey: string;
	};
	const [other] = await madeBy(() => call(more.text));
	expect(other).toEqual(await expected({ ...elsewhere, task, sampling, endpoint }));
	await mcp.close();
});

test("of what can be tuned, the command line and MCP say what they have a word for, and name the rest", async () => {
	const here: LaunchRequest = { ...tuned, sandbox: "local" };
	expect(toCommandLine(tuned, doors.url).text).toContain("--host far");
	const words = toCommandLine(here, doors.url);
	expect(words.missing).toEqual([
		"agent.permissionRules",
		...["keepReasoning", "disableThinking", "seed", "topK"].map((name) => `sampling.${name}`),
		...["request.priority", "endpoint.dialect"],
	]);
	const [made] = await madeBy(() => shell(words.text));
	const { permissionRules: _rules, ...agent } = tuned.agent!;
	const { dialect: _dialect, ...endpoint } = tuned.endpoint as {
		type: "url";
		baseUrl: string;
		model: string;
		dialect: "plain";
	};
	expect(made).toEqual(
		await expected({ ...here, agent, endpoint, sampling: { continuity: "off" }, priority: 0 }),
	);
	expect(toMcp(tuned).missing).toEqual([
		...["budget.maxTotalTokens", "agent.driver", "agent.permissionRules", "sampling.seed", "sampling.topK"],
		...["labels.run", "request.priority", "endpoint.dialect", "endpoint.weightVersion"],
	]);
});
