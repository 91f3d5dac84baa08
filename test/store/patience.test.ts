import { expect, test } from "vitest";
import { isOutage } from "../../src/errors.ts";
import { mayBeDone, patient } from "../../src/store/patience.ts";
import type { Store } from "../../src/store/store.ts";

const REFUSED = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });

/** A store whose `finish` throws these, one after the other, and then works. */
function troubled(...errors: Error[]): { store: Store; tries: () => number } {
	let tries = 0;
	const finish = async () => {
		const error = errors[tries++];
		if (error) throw error;
		return true;
	};
	const others = new Proxy({}, { get: () => async () => "plain" }) as Store;
	const store = new Proxy(others, {
		get: (target, name) => (name === "finish" ? finish : Reflect.get(target, name)),
	});
	return { store, tries: () => tries };
}

const END = { outcome: "completed", reward: 1, failure: null, summary: null } as const;

test("a running rollout waits for a store that comes back", async () => {
	const { store, tries } = troubled(REFUSED, Object.assign(new Error("full"), { errcode: 13 }));
	expect(await patient(store).finish("ro_1", 1, END)).toBe(true);
	expect(tries()).toBe(3);
});

test("it does not wait for ever, nor for what will not pass, nor repeat what may have been done", async () => {
	const forever = troubled(...Array<Error>(1000).fill(REFUSED));
	await expect(patient(forever.store, 600).finish("ro_1", 1, END)).rejects.toBe(REFUSED);
	const bug = troubled(new TypeError("undefined is not a function"));
	await expect(patient(bug.store).finish("ro_1", 1, END)).rejects.toThrow(TypeError);
	const cut = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
	mayBeDone(cut);
	const committing = troubled(cut);
	await expect(patient(committing.store).finish("ro_1", 1, END)).rejects.toBe(cut);
	expect([bug.tries(), committing.tries()]).toEqual([1, 1]);
});

test("an outage is told from a fault", () => {
	const coded = (code: string) => Object.assign(new Error("x"), { code });
	for (const code of ["ECONNREFUSED", "ENOSPC", "08006", "57P01", "53300", "40P01"])
		expect(isOutage(coded(code))).toBe(true);
	for (const code of ["23505", "42P01", "22003", "ENOENT", "ERR_INVALID_ARG_TYPE"])
		expect(isOutage(coded(code))).toBe(false);
	expect(isOutage(new Error("Connection terminated unexpectedly"))).toBe(true);
	expect(isOutage(new SuppressedError(new Error("x"), coded("57P03")))).toBe(true);
	expect(isOutage(new Error("x", { cause: coded("57P03") }))).toBe(true);
	expect(isOutage("ECONNREFUSED")).toBe(false);
});
