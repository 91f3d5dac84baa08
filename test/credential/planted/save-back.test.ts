import { afterEach, beforeEach, expect, test } from "vitest";
import { AUTH_FILE, CONFIG_FILE, readLogin } from "../../../src/credential/login.ts";
import { SaveBack } from "../../../src/credential/planted/save-back.ts";
import { OutageError } from "../../../src/errors.ts";
import type { Credentials } from "../../../src/store/credentials.ts";
import { changed } from "../../rollout/fixture.ts";
import { authAfter, CONFIG, openPlantedStage, type PlantedStage } from "./stage.ts";

let stage: PlantedStage;
let credentials: Credentials;
beforeEach(async () => {
	stage = await openPlantedStage();
	({ credentials } = stage.store);
});
afterEach(() => stage[Symbol.asyncDispose]());

async function openSaveBack(using: Credentials = credentials, ttlMs = 60_000) {
	const hold = await credentials.acquire("ada", "rollout", ttlMs);
	return { hold, saveBack: new SaveBack(using, hold, stage.readAuth, { settleMs: 1 }) };
}

test("new tokens are stored in their place: its id, its settings and its label stay", async () => {
	const before = await credentials.find("ada");
	const { hold, saveBack } = await openSaveBack();
	stage.box.auth = authAfter(1);
	await saveBack.look();
	stage.box.auth = authAfter(2);
	await saveBack.look();
	await saveBack.look();
	const after = (await credentials.look({ label: "ada", holder: hold.holder, fence: hold.fence }))!;
	expect(after.credential).toMatchObject({ id: before!.id, version: 3, state: "unknown" });
	expect(after.credential.fingerprint).not.toBe(before!.fingerprint);
	const files = readLogin(after.secret);
	expect(JSON.parse(String(files.get(AUTH_FILE)))).toEqual(JSON.parse(String(authAfter(2))));
	expect(String(files.get(CONFIG_FILE))).toBe(CONFIG);
});

test("of what else the agent has come to in auth.json nothing is stored", async () => {
	const { hold, saveBack } = await openSaveBack();
	const other = { other: { type: "api", key: "sk-somebody-elses" } };
	stage.box.auth = Buffer.from(JSON.stringify({ ...other, ...JSON.parse(String(authAfter(1))) }));
	await saveBack.look();
	await credentials.release(hold);
	expect(await stage.storedRotation()).toBe(1);
	const { secret } = await credentials.acquire("ada", "look", 0);
	expect(Object.keys(JSON.parse(String(readLogin(secret).get(AUTH_FILE))))).toEqual(["acme"]);
});

test.for([
	["nothing", null],
	["a prefix", authAfter(1).subarray(0, 40)],
	["an empty file", Buffer.alloc(0)],
	["nobody's login", Buffer.from("{}")],
	["another provider's login", Buffer.from('{"other": {"type": "oauth"}}')],
	["a login without a refresh token", authAfter(1, { refresh: "" })],
	["a list", Buffer.from("[1]")],
	["a number", Buffer.from("7")],
	["bytes", Buffer.of(0xff, 0xfe, 0)],
] as const)("%s in the place of auth.json is never stored", async ([, auth]) => {
	const { hold, saveBack } = await openSaveBack();
	stage.box.auth = auth;
	await saveBack.look();
	await credentials.release(hold);
	expect(await credentials.find("ada")).toMatchObject({ version: 1, quarantine: [] });
});

test.for([
	["a box that does not answer", new Error("the box does not answer")],
	["a prefix", authAfter(1).subarray(0, 40)],
	["nothing", null],
	["another account's login", authAfter(1, { accountId: "mallory" })],
] as const)("%s in the end: what is stored may be spent, and nobody gets it unseen", async ([, auth]) => {
	const { hold, saveBack } = await openSaveBack();
	stage.box.auth = auth;
	await expect(saveBack.lookAtLast(AbortSignal.abort())).rejects.toThrow();
	expect(saveBack.isStored).toBe(true);
	await credentials.release(hold);
	expect(await credentials.find("ada")).toMatchObject({ state: "quarantined", version: 1, quarantine: [] });
});

test("while the last look is not over, nothing is known to be stored", async () => {
	const { saveBack } = await openSaveBack();
	const looking = saveBack.lookAtLast(AbortSignal.abort());
	expect(saveBack.isStored).toBe(false);
	await looking;
	expect(saveBack.isStored).toBe(true);
	expect(await credentials.find("ada")).toMatchObject({ state: "unknown" });
});

test("a file that is being written is read until it is whole, and its prefix is never stored", async () => {
	const whole = authAfter(1);
	// A whole document that is only the beginning of a longer one is not to be told from a whole one; it does not stay.
	const reads = [whole.subarray(0, 20), authAfter(7), whole, whole];
	const hold = await credentials.acquire("ada", "rollout", 60_000);
	const saveBack = new SaveBack(credentials, hold, async () => reads.shift() ?? whole, { settleMs: 1 });
	await saveBack.look();
	await credentials.release(hold);
	expect(await stage.storedRotation()).toBe(1);
	expect(await credentials.find("ada")).toMatchObject({ version: 2 });
});

test("a store that is away loses no token: the newest is stored when it is back, even if the box is gone by then", async () => {
	let isAway = true;
	const passing = changed(credentials, {
		save: async (hold, secret) => {
			if (isAway) throw new OutageError("away");
			return await credentials.save(hold, secret);
		},
	});
	const { hold, saveBack } = await openSaveBack(passing);
	for (const rotation of [1, 2]) {
		stage.box.auth = authAfter(rotation);
		await expect(saveBack.look()).rejects.toThrow("away");
		expect(saveBack.isStored).toBe(false);
	}
	isAway = false;
	stage.box.auth = new Error("the box is gone");
	await expect(saveBack.look()).rejects.toThrow("the box is gone");
	expect(saveBack.isStored).toBe(true);
	await credentials.release(hold);
	expect(await stage.storedRotation()).toBe(2);
});

test("a save whose answer got lost on the way is found done, and the next one goes on from it", async () => {
	let losses = 1;
	const forgetful = changed(credentials, {
		save: async (hold, secret) => {
			const saved = await credentials.save(hold, secret);
			if (losses-- > 0) throw new OutageError("the answer is lost");
			return saved;
		},
	});
	const { hold, saveBack } = await openSaveBack(forgetful);
	stage.box.auth = authAfter(1);
	await expect(saveBack.look()).rejects.toThrow("lost");
	await saveBack.look();
	expect(await credentials.find("ada")).toMatchObject({ version: 2 });
	stage.box.auth = authAfter(2);
	await saveBack.look();
	await credentials.release(hold);
	expect(await stage.storedRotation()).toBe(2);
});

test("two looks at once store each token once", async () => {
	const { hold, saveBack } = await openSaveBack();
	stage.box.auth = authAfter(1);
	await Promise.all([saveBack.look(), saveBack.look(), saveBack.look()]);
	await credentials.release(hold);
	expect(await credentials.find("ada")).toMatchObject({ version: 2 });
});

test("who lost the hold writes nothing more: the next holder's login stays, and the old one's is put aside", async () => {
	const { saveBack } = await openSaveBack(credentials, 0);
	const next = await credentials.acquire("ada", "next", 60_000);
	stage.box.auth = authAfter(1);
	await expect(saveBack.look()).rejects.toMatchObject({ code: "credential_lost" });
	const claim = { label: "ada", holder: "next", fence: next.fence };
	expect(await credentials.look(claim)).toMatchObject({ secret: next.secret });
	const found = (await credentials.find("ada"))!;
	expect(found).toMatchObject({ state: "quarantined", quarantine: [{ fence: 1 }] });
	expect(JSON.stringify(found)).not.toContain("token-1");
	// What was put aside is in good hands: it is not put aside twice.
	await saveBack.look();
	expect((await credentials.find("ada"))!.quarantine).toHaveLength(1);
});

test("tokens of another account are nobody's refresh: they are not stored", async () => {
	const { hold, saveBack } = await openSaveBack();
	stage.box.auth = authAfter(1, { accountId: "mallory" });
	await expect(saveBack.look()).rejects.toMatchObject({ code: "login_replaced" });
	await credentials.release(hold);
	expect(await stage.storedRotation()).toBe(0);
});
