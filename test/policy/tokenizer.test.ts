import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { decode, encode } from "../../src/policy/tokenizer.ts";
import { CONTROL_ID, VOCABULARY_SIZE } from "../../src/policy/vocabulary.ts";

const SAMPLES = [
	"",
	" ",
	"Hello, world!",
	"  two\t\ttabs\n\n\n\tand lines \r\n",
	"Grüße 🎉 日本語 \u0000 \u{1f468}\u200d\u{1f469}",
	'{"filePath":"/home/user/workdir/a.ts","content":"x \\"y\\" \\n"}',
	"<|end|><|assistant|>",
	"supercalifragilisticexpialidocious ABC XyZ 1234567890",
];

test.each(SAMPLES)("text comes back byte for byte: %j", (text) => {
	expect(decode(encode(text))).toBe(text);
});

test("no text is encoded to a control token or beyond the vocabulary", () => {
	const ids = SAMPLES.flatMap((text) => encode(text));
	expect(Math.min(...ids)).toBeGreaterThan(Math.max(...Object.values(CONTROL_ID)));
	expect(Math.max(...ids)).toBeLessThan(VOCABULARY_SIZE);
});

test("source code takes about as many tokens as with a real tokenizer: two to five characters each", async () => {
	const text = await readFile(new URL("../../src/policy/server.ts", import.meta.url), "utf8");
	const ids = encode(text);
	expect(decode(ids)).toBe(text);
	expect(text.length / ids.length).toBeGreaterThan(2);
	expect(text.length / ids.length).toBeLessThan(5);
});
