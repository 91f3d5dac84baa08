import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { toTimerMs } from "../../src/model/duration.ts";

const SRC = new URL("../../src/", import.meta.url).pathname;

test.each([
	[12345.67, 12346],
	[0.001, 1],
	[0, 0],
	[-5, 0],
	[2 ** 40, 2 ** 31 - 1],
	[Number.POSITIVE_INFINITY, 2 ** 31 - 1],
])("a timer of %d ms is set to %d", (given, set) => {
	expect(toTimerMs(given)).toBe(set);
	expect(AbortSignal.timeout(set).aborted).toBe(false);
});

test("AbortSignal.timeout, which refuses fractions, is given constants or whole numbers only", () => {
	const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((path) =>
		/\.tsx?$/.test(path),
	);
	const calls = files.flatMap((path) =>
		readFileSync(join(SRC, path), "utf8")
			.split("\n")
			.filter((line) => line.includes("AbortSignal.timeout("))
			.map((line) => `${path}: ${line.trim()}`),
	);
	expect(calls.length).toBeGreaterThan(5);
	expect(calls.filter((call) => !/AbortSignal\.timeout\((?:toTimerMs\(|[A-Z_]+\))/.test(call))).toEqual([]);
});
