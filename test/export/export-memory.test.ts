import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const PROGRAM = new URL("./export-many.ts", import.meta.url).pathname;

test("more is exported than memory could hold: 60 MB of samples from a heap of 40 MB", async () => {
	const { stdout } = await promisify(execFile)(process.execPath, ["--max-old-space-size=40", PROGRAM, "120"]);
	const { rows, bytes } = JSON.parse(stdout);
	expect(rows).toBe(120);
	expect(bytes).toBeGreaterThan(60e6);
});
