import { once } from "node:events";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SaveBack } from "../../../src/credential/planted/save-back.ts";
import { watchLogin } from "../../../src/credential/planted/watch.ts";
import { authAfter, openPlantedStage, type PlantedStage } from "./stage.ts";

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
	const { credentials } = stage.store;
	const hold = await credentials.acquire("ada", "rollout", ttlMs);
	const saveBack = new SaveBack(credentials, hold, stage.readAuth, { settleMs: 1 });
	const said: string[] = [];
	const watch = watchLogin(saveBack, (text) => void said.push(text));
	/** Ten seconds pass, and the look that they bring comes to its end. */
	const look = async () => {
		vi.advanceTimersByTime(10_000);
		await saveBack.look().catch(() => {});
	};
	return { said, watch, look };
}

test("a refresh is stored within ten seconds", async () => {
	const { watch, look, said } = await openWatch();
	stage.box.auth = authAfter(1);
	vi.advanceTimersByTime(9_999);
	await new Promise(setImmediate);
	expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 1 });
	await look();
	expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 2 });
	await watch[Symbol.asyncDispose]();
	expect(said).toEqual([]);
});

test("a box that does not answer once costs one look: the next one stores what is new, and the hold goes on", async () => {
	const { watch, look, said } = await openWatch();
	stage.box.auth = new Error("the box does not answer");
	await look();
	stage.box.auth = authAfter(1);
	await look();
	await watch[Symbol.asyncDispose]();
	expect(said).toEqual([expect.stringContaining("the box does not answer")]);
	expect(watch.lost.aborted).toBe(false);
	expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 2, holders: [{}] });
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
	vi.advanceTimersByTime(10_000);
	await watch[Symbol.asyncDispose]();
	expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 2 });
	expect(vi.getTimerCount()).toBe(0);
});
