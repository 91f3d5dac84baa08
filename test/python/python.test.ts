import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { expect, type TestContext, test } from "vitest";
import { type Daemon, freePort, startDaemon } from "../fixtures/daemon.ts";
import { example } from "../fixtures/paddock.ts";
import { requirePart } from "../fixtures/parts.ts";
import { bash, openScriptedModel, say } from "../fixtures/script.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "../..");
const PYTHON = process.env.PADDOCK_PYTHON ?? "python3";
const env = { ...process.env, PYTHONPATH: join(ROOT, "python"), PYTHONDONTWRITEBYTECODE: "1" };
/** Eight agents on a busy machine; nothing here is asserted about time. */
const PATIENCE_MS = 600_000;

test(
	"the Python client passes its own tests",
	async (context) => {
		requirePython(context);
		const tests = ["-m", "unittest", "discover", "-s", "tests", "-t", "."];
		const { stderr } = await run(PYTHON, tests, { cwd: join(ROOT, "python"), env });
		expect(stderr).toMatch(/^Ran \d\d+ tests/m);
		expect(stderr).toMatch(/^OK/m);
	},
	PATIENCE_MS,
);

test(
	"a group of eight run from Python gives its training rows, though the server is killed half-way",
	async (context) => {
		requirePython(context);
		await using folder = await openFolder();
		const task = join(folder.path, "task.json");
		await writeFile(task, JSON.stringify(await example("fizzbuzz")));
		await using server = await startServer(join(folder.path, "home"));
		await using script = startExample(["rows.py", server.url, "--task", task]);
		let kills = 0;
		for await (const line of script.lines) {
			if (!line.startsWith("2 of 8")) continue;
			await server.killAndRestart();
			kills++;
		}
		expect(await script.ended).toEqual({ code: 0, complaints: "" });
		expect(kills).toBe(1);
		expect(script.said.filter((line) => / of 8: completed, reward 1/.test(line))).toHaveLength(8);
		expect(script.said.at(-1)).toBe("All as it should be.");
		// The server is a second process by now; what TRL gets of it fits as well.
		await using columns = startExample(["grpo.py", server.url, "--dry-run"]);
		expect(await columns.ended).toEqual({ code: 0, complaints: "" });
		expect(columns.said.at(-1)).toMatch(/^8 completions, rewards \[1(\.0)?(, 1(\.0)?){7}\]$/);
	},
	PATIENCE_MS,
);

test(
	"every verb of the Python client is understood by a real server",
	async (context) => {
		requirePython(context);
		await using folder = await openFolder();
		await using server = await startServer(join(folder.path, "home"));
		const options = [{ label: "red", description: "" }];
		const questions = [{ question: "Which colour?", header: "Colour", options }];
		await using model = await openScriptedModel([
			...[bash("echo one"), { calls: [{ tool: "question", args: { questions } }] }, say("first")],
			...[bash("sleep 300"), say("second"), say("second")],
		]);
		const { baseUrl, model: name, apiKey } = model.endpoint;
		const words = [join(import.meta.dirname, "every_verb.py"), server.url, baseUrl, name, apiKey];
		const { stdout } = await run(PYTHON, words, { env });
		expect(stdout).toContain("All as it should be.");
	},
	PATIENCE_MS,
);

function requirePython(context: TestContext): void {
	const check = "import sys; sys.exit(sys.version_info < (3, 10))";
	const present = spawnSync(PYTHON, ["-c", check]).status === 0;
	requirePart(context, "Python 3.10 or later", present, "install python3, or name it by PADDOCK_PYTHON");
}

async function openFolder(): Promise<{ path: string } & AsyncDisposable> {
	const path = await mkdtemp(join(tmpdir(), "paddock-python-"));
	return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

interface Server extends AsyncDisposable {
	url: string;
	killAndRestart(): Promise<void>;
}

async function startServer(home: string): Promise<Server> {
	const port = await freePort();
	const serve = (): Promise<Daemon> =>
		startDaemon(["serve", "--port", String(port), "--concurrency", "2"], { PADDOCK_HOME: home });
	let daemon = await serve();
	return {
		url: `http://127.0.0.1:${port}`,
		async killAndRestart() {
			await daemon.kill9();
			daemon = await serve();
		},
		[Symbol.asyncDispose]: () => daemon[Symbol.asyncDispose](),
	};
}

/** An example of examples/training/, line by line. */
function startExample([name, ...args]: [string, ...string[]]) {
	const script = spawn(PYTHON, [join(ROOT, "examples/training", name), ...args], { env });
	const exited = once(script, "close");
	const said: string[] = [];
	const lines = createInterface({ input: script.stdout }).on("line", (line) => said.push(line));
	let complaints = "";
	script.stderr.on("data", (chunk) => {
		complaints += chunk;
	});
	const ended = exited.then(([code]) => ({ code: code as number | null, complaints }));
	return {
		...{ lines, said, ended },
		async [Symbol.asyncDispose]() {
			script.kill("SIGKILL");
			await exited;
		},
	};
}
