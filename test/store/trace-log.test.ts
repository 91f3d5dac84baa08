import { describe, expect, test } from "vitest";
import type { ModelCall } from "../../src/model/call.ts";
import { readCalls, readSuperseded, TraceWriter } from "../../src/store/trace/trace-log.ts";
import { aCall, collected, streamed } from "../export/calls.ts";
import { randomCalls } from "./trace-random.ts";

async function written(calls: ModelCall[]): Promise<Buffer[]> {
	const appends: Buffer[] = [];
	const writer = new TraceWriter(async (bytes) => void appends.push(Buffer.from(bytes)));
	for (const call of calls) await writer.write(call);
	return appends;
}

const read = (parts: Buffer[]) => collected(readCalls(() => streamed(parts)));

describe("round trip", () => {
	test.each(Array.from({ length: 40 }, (_, seed) => seed))(
		"what is written is read again, seed %i",
		async (seed) => {
			const calls = randomCalls(seed);
			const appends = await written(calls);
			expect(appends).toHaveLength(calls.length);
			expect(await read(appends)).toEqual(calls);
		},
	);

	test("chunks of any size read alike, down to single bytes", async () => {
		const calls = randomCalls(7).slice(0, 6);
		const whole = Buffer.concat(await written(calls));
		for (const size of [1, 2, 3, 11, 64, 1000, whole.length]) {
			const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, at) =>
				whole.subarray(at * size, (at + 1) * size),
			);
			expect(await read(chunks)).toEqual(calls);
		}
	});

	test("calls written at the same time are all there, in the order of the writes", async () => {
		const calls = randomCalls(3);
		const appends: Buffer[] = [];
		const writer = new TraceWriter(async (bytes) => {
			await new Promise(setImmediate);
			appends.push(Buffer.from(bytes));
		});
		await Promise.all(calls.map((call) => writer.write(call)));
		expect(await read(appends)).toEqual(calls);
	});

	test("a log of no calls reads as none", async () => {
		expect(await read([])).toEqual([]);
	});
});

describe("damage", () => {
	const calls = [0, 1, 2].map((index) =>
		aCall({ index, promptIds: [1, 2, 3, index], completionIds: [9, index] }),
	);

	test("a torn tail costs only the last call, wherever it is torn", async () => {
		const appends = await written(calls);
		const last = appends.at(-1)!;
		for (let bytes = 0; bytes < last.length; bytes++) {
			expect(await read([...appends.slice(0, -1), last.subarray(0, bytes)])).toEqual(calls.slice(0, -1));
		}
	});

	test("no flipped bit goes unnoticed: reading stops before it", async () => {
		const appends = await written(calls);
		const last = appends.at(-1)!;
		for (let at = 0; at < last.length; at++) {
			const flipped = Buffer.from(last);
			flipped[at]! ^= 0x10;
			expect(await read([...appends.slice(0, -1), flipped])).toEqual(calls.slice(0, -1));
		}
	});

	test("after an append that failed half way, later calls are kept and read", async () => {
		const disk: Buffer[] = [];
		let failing = false;
		const writer = new TraceWriter(async (bytes) => {
			disk.push(Buffer.from(failing ? bytes.subarray(0, bytes.length / 2) : bytes));
			if (failing) throw new Error("no space left on device");
		});
		await writer.write(calls[0]!);
		failing = true;
		await expect(writer.write(calls[1]!)).rejects.toThrow("no space left on device");
		failing = false;
		await writer.write(calls[2]!);
		expect(await read(disk)).toEqual([calls[0], calls[2]]);
	});

	test("a log of a newer version is refused in words", async () => {
		const [first] = await written(calls);
		first!.writeUInt32LE(2, 8);
		await expect(read([first!])).rejects.toThrow("this trace is of version 2");
	});

	test("a token id that is no int32 is refused, and the log stays good", async () => {
		const disk: Buffer[] = [];
		const writer = new TraceWriter(async (bytes) => void disk.push(Buffer.from(bytes)));
		await writer.write(calls[0]!);
		await expect(writer.write(aCall({ index: 1, promptIds: [2 ** 40] }))).rejects.toMatchObject({
			code: "bad_token_id",
		});
		await writer.write(calls[2]!);
		expect(await read(disk)).toEqual([calls[0], calls[2]]);
	});
});

describe("retries", () => {
	const cut = aCall({ index: 0, complete: false, promptIds: [1, 2], completionIds: [3] });
	const again = aCall({ index: 1, retryOf: 0, promptIds: [1, 2], completionIds: [4] });

	test("a call that a retry replaced is read as superseded", async () => {
		const appends = await written([cut, again]);
		expect(await readSuperseded(streamed(appends))).toEqual(new Set([0]));
		expect(await read(appends)).toEqual([{ ...cut, superseded: true }, again]);
	});

	test("a single pass does not know what follows, and marks nothing", async () => {
		const once = await collected(readCalls(streamed(await written([cut, again]))));
		expect(once.map((call) => call.superseded)).toEqual([false, false]);
	});
});
