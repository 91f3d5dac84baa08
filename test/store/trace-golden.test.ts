import { readFile } from "node:fs/promises";
import { inflateSync } from "node:zlib";
import { expect, test } from "vitest";
import type { ModelCall } from "../../src/model/call.ts";
import { readRecords } from "../../src/store/trace/record.ts";
import { readCalls, TraceWriter } from "../../src/store/trace/trace-log.ts";
import { collected, streamed } from "../export/calls.ts";

/**
 * golden.trace is a log as version 1 writes it, in base64; golden.json the calls in it. Logs like it lie on people's disks: when
 * one of these tests fails, the format has changed and needs a new version number.
 */
const file = (name: string) => readFile(new URL(`./golden/${name}`, import.meta.url), "utf8");
const goldenBytes = async () => Buffer.from(await file("golden.trace"), "base64");
const goldenCalls = async (): Promise<ModelCall[]> => JSON.parse(await file("golden.json"));

/** Without what may differ from one zlib to the next. */
const records = async (bytes: Uint8Array) =>
	(await collected(readRecords(streamed([bytes])))).map(({ type, deflated, payload }) => ({
		type,
		payload: (deflated ? inflateSync(payload) : payload).toString("latin1"),
	}));

test("the golden log reads as the golden calls", async () => {
	const bytes = await goldenBytes();
	expect(await collected(readCalls(() => streamed([bytes])))).toEqual(await goldenCalls());
});

test("the golden calls are written as the golden log", async () => {
	const written: Uint8Array[] = [];
	const writer = new TraceWriter(async (bytes) => void written.push(bytes));
	for (const call of await goldenCalls()) await writer.write(call);
	expect(await records(Buffer.concat(written))).toEqual(await records(await goldenBytes()));
});
