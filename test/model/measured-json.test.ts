import { expect, test } from "vitest";
import { parseInSteps } from "../../src/model/measured-json.ts";

/** How often everybody else had a turn meanwhile. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
	let turns = 0;
	let next: NodeJS.Immediate;
	const count = () => {
		turns += 1;
		next = setImmediate(count);
	};
	next = setImmediate(count);
	await work();
	clearImmediate(next);
	return turns;
}

const message = (bytes: number) => Buffer.from(JSON.stringify({ text: "ü".repeat(bytes / 2) }));

test("others have their turn before, between and after the steps of parsing a large message", async () => {
	const bytes = message(1024 * 1024);
	expect(await turnsDuring(() => parseInSteps(bytes, { fatal: true }))).toBeGreaterThanOrEqual(2);
});

test("a small message is parsed at once", async () => {
	expect(await turnsDuring(() => parseInSteps(message(1024), { fatal: true }))).toBe(0);
});

test("what is no JSON, or no text, is an error, whatever its size", async () => {
	for (const size of [10, 1024 * 1024]) {
		const broken = message(size).subarray(0, -1);
		await expect(parseInSteps(broken, { fatal: true })).rejects.toThrow(SyntaxError);
		const noText = Buffer.concat([message(size), Buffer.from([0xff])]);
		await expect(parseInSteps(noText, { fatal: true })).rejects.toThrow(TypeError);
	}
});
