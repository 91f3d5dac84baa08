import { once } from "node:events";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { holdCredential } from "../../../src/credential/hold.ts";
import { SaveBack } from "../../../src/credential/planted/save-back.ts";
import { watchLogin } from "../../../src/credential/planted/watch.ts";
import type { Hold } from "../../../src/store/credentials.ts";
import { authAfter, openPlantedStage, type PlantedStage } from "./stage.ts";

/** Renewed with each look: the timers of both are turned by hand. */
const CLOCKS = { ttlMs: 60_000, renewMs: 2_000, marginMs: 10_000 };

let stage: PlantedStage;
beforeEach(async () => {
	stage = await openPlantedStage();
	vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(async () => {
	vi.useRealTimers();
	await stage[Symbol.asyncDispose]();
});

async function openWatch(ttlMs = 60_000) {
	return openWatchOver(await stage.store.credentials.acquire("ada", "rollout", ttlMs));
}

function openWatchOver(hold: Hold) {
	const saveBack = new SaveBack(stage.store.credentials, hold, stage.readAuth, { settleMs: 1 });
	const said: string[] = [];
	const watch = watchLogin(saveBack, (text) => void said.push(text));
	/** Two seconds pass, and the look that they bring comes to its end. */
	const look = async () => {
		vi.advanceTimersByTime(2_000);
		await saveBack.look().catch(() => {});
	};
	return { said, watch, look };
}

test("a refresh is stored within two seconds", async () => {
	const { watch, look, said } = await openWatch();
	stage.box.auth = authAfter(1);
	vi.advanceTimersByTime(1_999);
	await new Promise(setImmediate);
	expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 1 });
	await look();
	expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 2 });
	await watch[Symbol.asyncDispose]();
	expect(said).toEqual([]);
});

test("a box that does not answer costs no more than its looks: it is said once, the next one stores what is new, and the hold goes on", async () => {
	const { credentials } = stage.store;
	await using held = await holdCredential(credentials, "ada", "rollout", { clocks: CLOCKS });
	const { watch, look, said } = openWatchOver(held.hold);
	stage.box.auth = new Error("the box does not answer");
	const renewed = vi.spyOn(credentials, "renew");
	await look();
	await look();
	stage.box.auth = authAfter(1);
	await look();
	stage.box.auth = new Error("the box does not answer");
	await look();
	await watch[Symbol.asyncDispose]();
	const trouble = expect.stringContaining("the box does not answer");
	expect(said).toEqual([trouble, trouble]);
	expect(watch.lost.aborted).toBe(false);
	expect(held.lost.aborted).toBe(false);
	expect(renewed.mock.calls.length).toBeGreaterThanOrEqual(4);
	expect(await credentials.find("ada")).toMatchObject({ version: 2, holders: [{}] });
});

test("who finds that the login is another's by now says so, for its agent to be stopped", async () => {
	const { watch, look } = await openWatch(0);
	await stage.store.credentials.acquire("ada", "next", 60_000);
	const lost = once(watch.lost, "abort");
	stage.box.auth = authAfter(1);
	await look();
	await lost;
	await watch[Symbol.asyncDispose]();
});

test("once it is over it looks no more, and waits for the look that is under way", async () => {
	const { watch } = await openWatch();
	stage.box.auth = authAfter(1);
	vi.advanceTimersByTime(2_000);
	await watch[Symbol.asyncDispose]();
	expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 2 });
	expect(vi.getTimerCount()).toBe(0);
});
