import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { MACHINE_PATH } from "../fixtures/machine-path.ts";

const run = promisify(execFile);
const PATIENCE_MS = 240_000;

test(
	"the MCP example runs, cancels and drives real rollouts over stdio",
	async () => {
		const home = await mkdtemp(join(tmpdir(), "paddock-mcp-"));
		try {
			// With the machine's own Node, which may be older than ours.
			const env = { ...process.env, PATH: MACHINE_PATH, PADDOCK_HOME: home };
			const { stdout } = await run("node", ["examples/mcp/run.mjs"], { env });
			expect(stdout).toContain("All as it should be.");
		} finally {
			await rm(home, { recursive: true, force: true });
		}
	},
	PATIENCE_MS,
);
