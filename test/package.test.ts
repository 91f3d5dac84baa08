import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { parse } from "yaml";
import { VERSION } from "../src/version.ts";
import { MACHINE_PATH } from "./fixtures/machine-path.ts";
import { requirePart } from "./fixtures/parts.ts";

const ROOT = join(import.meta.dirname, "..");
const TSC = join(ROOT, "node_modules/typescript/bin/tsc");
const LONG = 400_000;

const read = (path: string) => readFile(join(ROOT, path), "utf8");
const run = promisify(execFile);

test("there is one version: of the packages, of the contract and of the OpenEnv manifest", async () => {
	const versions = {
		npm: JSON.parse(await read("package.json")).version,
		lock: JSON.parse(await read("package-lock.json")).version,
		openapi: JSON.parse(await read("schemas/openapi.json")).info.version,
		openenv: parse(await read("openenv.yaml")).version,
		pip: /^version = "(.+)"$/m.exec(await read("python/pyproject.toml"))?.[1],
		python: /^__version__ = "(.+)"$/m.exec(await read("python/paddock/__init__.py"))?.[1],
	};
	expect(new Set(Object.values(versions)), JSON.stringify(versions)).toEqual(new Set([VERSION]));
});

describe("the packed package, installed in an empty folder", () => {
	let folder: string;
	let home: string;
	let trouble: string | null = null;

	beforeAll(async () => {
		folder = await mkdtemp(join(tmpdir(), "paddock-package-"));
		home = join(folder, "data");
		const packing = ["pack", "--silent", "--pack-destination", folder];
		const { stdout } = await run("npm", packing, { cwd: ROOT, maxBuffer: 10_000_000 });
		await writeFile(join(folder, "package.json"), '{ "name": "an-app", "private": true, "type": "module" }');
		const install = ["install", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts=false"];
		await inFolder("npm", ...install, join(folder, stdout.trim())).catch((error: { stderr: string }) => {
			if (!/ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ENOTCACHED/.test(error.stderr)) throw error;
			trouble = error.stderr;
		});
	}, LONG);
	afterAll(async () => await rm(folder, { recursive: true, force: true }));

	const inFolder = (program: string, ...args: string[]) =>
		run(program, args, { cwd: folder, env: environment(), maxBuffer: 50_000_000 });
	const environment = () => ({ PATH: MACHINE_PATH, HOME: process.env.HOME ?? folder, PADDOCK_HOME: home });
	const requireRegistry = (context: TestContext) =>
		requirePart(context, "npm's registry", trouble === null, "go online once, for npm to fetch the packages");

	test("its command runs on the machine's own Node, whichever that is", async (context) => {
		requireRegistry(context);
		const { stdout } = await inFolder("npx", "--no-install", "paddock", "--version");
		expect(stdout).toBe(`${VERSION}\n`);
	});

	test("an older Node is told in a sentence what the server part needs", async (context) => {
		requireRegistry(context);
		const { stdout: version } = await inFolder("node", "--version");
		const importing = inFolder("node", "--input-type=module", "-e", 'import "paddock-rollouts/server"');
		if (Number.parseInt(version.slice(1), 10) >= 24) await importing;
		else
			await expect(importing).rejects.toMatchObject({
				stderr: expect.stringContaining("needs Node 24 or newer"),
			});
		await inFolder("node", "--input-type=module", "-e", 'import "paddock-rollouts"');
	});

	test(
		"the example that comes along is solved by the real agent",
		async (context) => {
			requireRegistry(context);
			const example = "node_modules/paddock-rollouts/examples/tasks/fizzbuzz";
			const { stdout } = await inFolder("npx", "paddock", "run", example, "--policy", "oracle", "--json");
			expect(JSON.parse(stdout)).toMatchObject({ task_id: "fizzbuzz", outcome: "completed", reward: 1 });
		},
		LONG,
	);

	test(
		"a program in TypeScript imports client and server with their types, and runs a rollout",
		async (context) => {
			requireRegistry(context);
			await writeFile(join(folder, "program.ts"), PROGRAM);
			const options = ["--noEmit", "--strict", "--target", "esnext", "--module", "nodenext"];
			await run(process.execPath, [TSC, ...options, "program.ts"], { cwd: folder });
			const { stdout } = await inFolder(process.execPath, "program.ts");
			// With the console, whose script comes along.
			expect(stdout).toBe("completed 1 200\n");

			await writeFile(join(folder, "wrong.ts"), PROGRAM.replace("instruction:", "instructions:"));
			const checking = run(process.execPath, [TSC, ...options, "wrong.ts"], { cwd: folder });
			await expect(checking).rejects.toMatchObject({ stdout: expect.stringContaining("'instructions'") });
		},
		LONG,
	);

	test(
		"an MCP client with the documented configuration finds the tools",
		async (context) => {
			requireRegistry(context);
			const documented = /"command": "npx", "args": (\[.*?\])/.exec(await read("docs/mcp.md"));
			const client = new Client({ name: "test", version: "1" });
			const command = { command: "npx", args: JSON.parse(documented![1]!), env: environment(), cwd: folder };
			await client.connect(new StdioClientTransport(command));
			try {
				const { tools } = await client.listTools();
				expect(tools.map((tool) => tool.name)).toContain("run_rollout");
			} finally {
				await client.close();
			}
		},
		LONG,
	);
});

const PROGRAM = `import { createClient } from "paddock-rollouts";
import { loadConfig, openPaddock, serve } from "paddock-rollouts/server";

await using paddock = await openPaddock(loadConfig(process.env, process.cwd()));
await using worker = await paddock.work({ capacity: 1 });
await using serving = await serve(paddock, { host: "127.0.0.1", port: 0 });
const client = createClient({ baseUrl: serving.url });
const { rollouts } = await client.submit({
	task: { id: "hello", instruction: "Write hello.", verify: ["grep -q hello hello.txt"], solution: [{ tool: "bash", command: "echo hello > hello.txt" }] },
	endpoint: { type: "policy", policy: "oracle" },
});
const { outcome, reward } = await client.wait(rollouts[0]!.id);
const page = await (await fetch(\`\${serving.url}/web/\`)).text();
const script = /src="(\\/web\\/assets\\/[^"]+\\.js)"/.exec(page)![1]!;
console.log(outcome, reward, (await fetch(serving.url + script)).status);
`;
