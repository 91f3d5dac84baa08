import { expect, test } from "vitest";
import { Turnstile, Turnstiles } from "../../src/rollout/turnstile.ts";

test("whoever gives up waiting leaves the line, and the next one gets the place", async () => {
	const turnstile = new Turnstile(1);
	const inside = await turnstile.enter();
	const impatient = new AbortController();
	const first = turnstile.enter(impatient.signal);
	const second = turnstile.enter();
	impatient.abort();
	await expect(first).rejects.toThrow(/aborted/);
	inside[Symbol.dispose]();
	using _turn = await second;
});

test("a name that somebody gave up waiting for is still let in", async () => {
	const turnstiles = new Turnstiles(1);
	const inside = await turnstiles.enter("a");
	const impatient = new AbortController();
	const waiting = turnstiles.enter("a", impatient.signal);
	impatient.abort();
	await expect(waiting).rejects.toThrow(/aborted/);
	inside[Symbol.dispose]();
	using _turn = await turnstiles.enter("a");
});
