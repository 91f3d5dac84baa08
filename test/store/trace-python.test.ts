import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import type { ModelCall } from "../../src/model/call.ts";
import { TraceWriter } from "../../src/store/trace/trace-log.ts";
import { requirePart } from "../fixtures/parts.ts";
import { randomCalls } from "./trace-random.ts";

const run = promisify(execFile);
const READER = new URL("../../examples/read-trace/read_trace.py", import.meta.url).pathname;

async function hasPython(): Promise<boolean> {
	return run("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).then(
		() => true,
		() => false,
	);
}

/** Written as two sections, as after a failed append, and with a torn tail. */
async function traceOf(calls: ModelCall[]): Promise<Buffer> {
	const parts: Uint8Array[] = [];
	for (const section of [calls.slice(0, 12), calls.slice(12)]) {
		const writer = new TraceWriter(async (bytes) => void parts.push(bytes));
		for (const call of section) await writer.write(call);
		if (parts.length === 12) parts.push(parts.at(-1)!.subarray(0, 40));
	}
	return Buffer.concat([...parts, parts.at(-1)!.subarray(0, 50)]);
}

/** The reader's spelling: request and reply are not nested. */
function flat(call: ModelCall) {
	const { request, response, ...rest } = call;
	return { ...rest, ...request, reply: response.message, finishReason: response.finishReason };
}

test("a thirty-line Python program reads the log as we do", async (context) => {
	requirePart(context, "python3", await hasPython(), "install Python 3.10 or newer");
	const lines = (await readFile(READER, "utf8")).trimEnd().split("\n");
	expect(lines.filter((line) => line.trim() !== "").length).toBeLessThanOrEqual(30);
	const folder = await mkdtemp(join(tmpdir(), "paddock-test-trace-"));
	try {
		for (const seed of [1, 2, 3]) {
			const calls = randomCalls(seed);
			const file = join(folder, `${seed}.trace`);
			await writeFile(file, await traceOf(calls));
			const { stdout } = await run("python3", [READER, file], { maxBuffer: 2 ** 28 });
			const read = stdout
				.trimEnd()
				.split("\n")
				.map((line) => JSON.parse(line));
			expect(read).toEqual(calls.map(flat));
		}
	} finally {
		await rm(folder, { recursive: true });
	}
});
