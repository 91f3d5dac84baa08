import { createReadStream } from "node:fs";
import { appendFile, rm } from "node:fs/promises";
import { readCalls, TraceWriter } from "../../src/store/trace/trace-log.ts";
import { longRollout } from "./trace-long.ts";

/**
 * Run as a program of its own (`node --expose-gc trace-capture.ts <file> <turns> <tokens>`): captures a long rollout into a
 * file, reads it back, and prints what it took. `liveBytes` is the highest growth of what capture holds on to, `peakBytes` the highest
 * of all memory in use, garbage and the conversation itself included.
 */
const [file, turns, tokens] = process.argv.slice(2);
if (!file) throw new Error("usage: trace-capture.ts <file> <turns> <tokens>");

const collect = globalThis.gc;
if (!collect) throw new Error("needs --expose-gc");
const inUse = () => {
	const { heapUsed, external } = process.memoryUsage();
	return heapUsed + external;
};

collect();
const before = inUse();
const figures = {
	calls: 0,
	readCalls: 0,
	readTokens: 0,
	traceBytes: 0,
	jsonBytes: 0,
	liveBytes: 0,
	peakBytes: 0,
	writeMs: 0,
};
const writer = new TraceWriter(async (bytes) => {
	figures.traceBytes += bytes.length;
	figures.peakBytes = Math.max(figures.peakBytes, inUse() - before);
	await appendFile(file, bytes);
});
for (const call of longRollout(Number(turns), Number(tokens))) {
	const startedAt = performance.now();
	await writer.write(call);
	figures.writeMs += performance.now() - startedAt;
	figures.calls++;
	figures.jsonBytes += JSON.stringify(call).length + 1;
	if (figures.calls % 20 === 0) {
		collect();
		figures.liveBytes = Math.max(figures.liveBytes, inUse() - before);
	}
}
for await (const call of readCalls(() => createReadStream(file))) {
	figures.readCalls++;
	figures.readTokens = call.promptIds.length + call.completionIds.length;
}
await rm(file);
console.log(JSON.stringify(figures));
