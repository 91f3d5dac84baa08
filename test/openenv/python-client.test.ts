import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { serveDoors } from "./doors.ts";
import { openPlayingPaddock } from "./playing-paddock.ts";
import { python, requireOpenEnv } from "./python.ts";

const run = promisify(execFile);
const script = join(import.meta.dirname, "python_client.py");
/** The package takes many seconds to import on a busy machine. */
const PATIENCE_MS = 240_000;

test(
	"the unmodified Python client resets, lists, runs, times out and calls again, and closes",
	async (context) => {
		requireOpenEnv(context);
		await using paddock = await openPlayingPaddock();
		await using doors = await serveDoors(paddock);
		const { stdout } = await run(python, [script, doors.url]);
		expect(JSON.parse(stdout)).toEqual({
			everything: "ok",
			step_result: "ok",
			two_at_once: "ok",
			timeout_then_call_again: "ok",
			short_calls: "ok",
			synchronous: "ok",
			over_json_rpc: "ok",
		});
		await expect.poll(() => doors.openEnv.pool.active).toBe(0);
	},
	PATIENCE_MS,
);

test(
	"openenv validate passes its six checks",
	async (context) => {
		requireOpenEnv(context);
		await using paddock = await openPlayingPaddock();
		await using doors = await serveDoors(paddock);
		const { stdout } = await run(join(dirname(python), "openenv"), [
			"validate",
			"--json",
			"--url",
			doors.url,
		]);
		expect(JSON.parse(stdout)).toMatchObject({ passed: true, summary: { passed_count: 6 } });
	},
	PATIENCE_MS,
);
