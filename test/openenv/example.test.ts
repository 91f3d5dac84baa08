import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { python, requireOpenEnv } from "./python.ts";

const run = promisify(execFile);
const PATIENCE_MS = 240_000;

test(
	"the OpenEnv example runs real rollouts against paddock serve",
	async (context) => {
		requireOpenEnv(context);
		await using server = await startServer();
		const { stdout } = await run(python, ["examples/openenv/run.py", server.url]);
		expect(stdout).toContain("All as it should be.");
	},
	PATIENCE_MS,
);

async function startServer(): Promise<{ url: string } & AsyncDisposable> {
	const home = await mkdtemp(join(tmpdir(), "paddock-openenv-"));
	const env = { ...process.env, PADDOCK_HOME: home };
	const server = spawn(process.execPath, ["bin/paddock.mjs", "serve", "--port", "0"], {
		env,
		stdio: ["ignore", "ignore", "pipe"],
	});
	let said = "";
	const url = await new Promise<string>((resolve, reject) => {
		server.stderr.on("data", (chunk) => {
			said += chunk;
			const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
			if (found !== undefined) resolve(found);
		});
		server.once("exit", () => reject(new Error(`paddock serve ended: ${said}`)));
	});
	return {
		url,
		async [Symbol.asyncDispose]() {
			const exited = once(server, "exit");
			server.kill("SIGTERM");
			await exited;
			await rm(home, { recursive: true, force: true });
		},
	};
}
