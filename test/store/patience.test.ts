import { expect, test } from "vitest";
import { isOutage, OutageError } from "../../src/errors.ts";
import { patient } from "../../src/store/patience.ts";
import { asOutage } from "../../src/store/postgres/outage.ts";
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
	const { store, tries } = troubled(REFUSED, new OutageError("full"));
	expect(await patient(store).finish("ro_1", 1, END)).toBe(true);
	expect(tries()).toBe(3);
});

test("it does not wait for ever, nor for what will not pass", async () => {
	const forever = troubled(...Array<Error>(1000).fill(REFUSED));
	await expect(patient(forever.store, 600).finish("ro_1", 1, END)).rejects.toBe(REFUSED);
	const bug = troubled(new TypeError("undefined is not a function"));
	await expect(patient(bug.store).finish("ro_1", 1, END)).rejects.toThrow(TypeError);
	expect(bug.tries()).toBe(1);
});

test("an outage is told from a fault, and PostgreSQL's own word for one is translated", () => {
	const coded = (code: string) => Object.assign(new Error("x"), { code });
	for (const code of ["ECONNREFUSED", "ENOSPC", "EAI_AGAIN"]) expect(isOutage(coded(code))).toBe(true);
	for (const code of ["ENOENT", "ERR_INVALID_ARG_TYPE", "08006"]) expect(isOutage(coded(code))).toBe(false);
	expect(isOutage(new SuppressedError(new Error("x"), new OutageError("y")))).toBe(true);
	expect(isOutage(new Error("x", { cause: new OutageError("y") }))).toBe(true);
	expect(isOutage("ECONNREFUSED")).toBe(false);
	for (const code of ["08006", "57P01", "53300", "40P01", "25P03", "ECONNRESET"])
		expect(isOutage(asOutage(coded(code)))).toBe(true);
	expect(isOutage(asOutage(new Error("Connection terminated unexpectedly")))).toBe(true);
	for (const code of ["23505", "42P01", "22003"]) expect(asOutage(coded(code))).toMatchObject({ code });
});
