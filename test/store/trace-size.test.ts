import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const PROGRAM = new URL("./trace-capture.ts", import.meta.url).pathname;
const MEGABYTE = 2 ** 20;

interface Figures {
	calls: number;
	readCalls: number;
	readTokens: number;
	traceBytes: number;
	jsonBytes: number;
	liveBytes: number;
	peakBytes: number;
}

/** Captures and reads back in a process of its own, whose heap may not exceed 64 MB: more and it dies. */
async function capture(turns: number, tokens: number): Promise<Figures> {
	const folder = await mkdtemp(join(tmpdir(), "paddock-test-size-"));
	try {
		const flags = ["--expose-gc", "--max-old-space-size=64"];
		const { stdout } = await promisify(execFile)(process.execPath, [
			...flags,
			PROGRAM,
			join(folder, "calls.trace"),
			String(turns),
			String(tokens),
		]);
		return JSON.parse(stdout);
	} finally {
		await rm(folder, { recursive: true });
	}
}

test("200 turns and 100,000 tokens: 20 times smaller than JSON lines, captured and read in less than 64 MB", async () => {
	const figures = await capture(200, 100_000);
	expect(figures).toMatchObject({ calls: 200, readCalls: 200 });
	expect(figures.readTokens).toBeGreaterThan(99_000);
	expect(figures.jsonBytes / figures.traceBytes).toBeGreaterThan(20);
	expect(figures.liveBytes).toBeLessThan(64 * MEGABYTE);
});

test("twice the turns make twice the log, where JSON lines grow by more than that", async () => {
	const [short, long] = [await capture(60, 36_000), await capture(120, 64_400)];
	expect(long.traceBytes / short.traceBytes).toBeLessThan(2.2);
	expect(long.jsonBytes / short.jsonBytes).toBeGreaterThan(2.8);
});
