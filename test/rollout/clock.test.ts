import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { closing, inTime, unresponsiveBox } from "../../src/rollout/clock.ts";

const late = () => unresponsiveBox("this", 1);

test("the longest clocks together do not ring at once", async () => {
	const work = Promise.withResolvers<string>();
	const waiting = inTime(work.promise, { ms: 2 ** 40, late });
	await new Promise((resolve) => setTimeout(resolve, 5));
	work.resolve("done");
	expect(await waiting).toBe("done");
});

test("what comes too late is let go of", async () => {
	const work = Promise.withResolvers<string>();
	const letGo: string[] = [];
	await expect(inTime(work.promise, { ms: 1, late }, (result) => letGo.push(result))).rejects.toMatchObject({
		code: "box_unresponsive",
	});
	work.resolve("a box");
	await turn();
	expect(letGo).toEqual(["a box"]);
});

test("what cannot be closed in time is said, not thrown", async () => {
	const said: string[] = [];
	{
		const stuck = { [Symbol.asyncDispose]: () => new Promise<void>(() => {}) };
		await using _closing = closing(stuck, "the box", 0.01, (text) => said.push(text));
	}
	expect(said).toEqual([expect.stringContaining("the box could not be closed")]);
});
