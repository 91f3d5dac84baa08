import { PassThrough, Readable } from "node:stream";
import { expect, test } from "vitest";
import { readLines } from "../../src/agent/lines.ts";

test("lines arrive whole however they were cut, the last one without an end too", async () => {
	const lines: string[] = [];
	await readLines(Readable.from([Buffer.from("on"), Buffer.from("e\ntwo\nth"), Buffer.from("ree")]), (line) =>
		lines.push(line),
	);
	expect(lines).toEqual(["one", "two", "three"]);
});

test("a line without an end is cut, and the next one is read all the same", async () => {
	const lines: string[] = [];
	const chunks = [...Array.from({ length: 50 }, () => Buffer.from("x".repeat(10))), Buffer.from("\nnext\n")];
	await readLines(Readable.from(chunks), (line) => lines.push(line), 25);
	expect(lines).toEqual(["x".repeat(25), "next"]);
});

test("a stream that breaks off has ended", async () => {
	const stream = new PassThrough();
	const ended = readLines(stream, () => {});
	stream.destroy(new Error("the box is gone"));
	await ended;
});
