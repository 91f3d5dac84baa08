import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, type TestContext, test } from "vitest";
import { requirePart } from "../fixtures/parts.ts";
import { serveDoors } from "./doors.ts";
import { openPlayingPaddock } from "./playing-paddock.ts";

const run = promisify(execFile);
const python = resolve(process.env.PADDOCK_OPENENV_PYTHON ?? ".paddock/openenv/bin/python");
const script = join(import.meta.dirname, "python_client.py");
/** The package takes many seconds to import on a busy machine. */
const PATIENCE_MS = 240_000;

function requireOpenEnv(context: TestContext): void {
	const how = "python3 -m venv .paddock/openenv && .paddock/openenv/bin/pip install openenv==0.4.2";
	requirePart(context, "the Python package openenv", existsSync(python), how);
}

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
		expect(doors.openEnv.pool.active).toBe(0);
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
