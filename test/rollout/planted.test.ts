import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { holdCredential } from "../../src/credential/hold.ts";
import { AUTH_FILE } from "../../src/credential/login.ts";
import { OutageError } from "../../src/errors.ts";
import { BoxSpec } from "../../src/model/task.ts";
import { PlantedLogin } from "../../src/rollout/login/planted.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Backend, Sandbox } from "../../src/sandbox/sandbox.ts";
import type { Credentials } from "../../src/store/credentials.ts";
import { authAfter, openPlantedStage, type PlantedStage } from "../credential/planted/stage.ts";
import { changed } from "./fixture.ts";

let backend: Backend;
let box: Sandbox;
let stage: PlantedStage;
let said: string[];
beforeAll(async () => {
	backend = await openLocalBackend();
});
afterAll(() => backend[Symbol.asyncDispose]());
beforeEach(async () => {
	stage = await openPlantedStage();
	said = [];
	box = await backend.open({ spec: BoxSpec.parse({}), onGateway: (connection) => connection.destroy() });
});
afterEach(async () => {
	vi.useRealTimers();
	await box[Symbol.asyncDispose]();
	await stage[Symbol.asyncDispose]();
});

async function plant(options: { box?: Sandbox; credentials?: Credentials } = {}): Promise<PlantedLogin> {
	const { credentials = stage.store.credentials } = options;
	const held = await holdCredential(credentials, "ada", "rollout");
	const login = new PlantedLogin({ credentials, held, say: (text) => void said.push(text), warn: () => {} });
	await login.plant(options.box ?? box);
	return login;
}

/** The agent's last act. */
function rotate(rotation: number): Promise<void> {
	return box.writeFile(`${box.home}/${AUTH_FILE}`, authAfter(rotation));
}

test("a login lies in the agent's home for nobody but the agent, with its settings, and nothing else", async () => {
	await using _login = await plant();
	const { stdout } = await box.exec(
		"cd ~ && find . -type f -printf '%m %P\\n' | sort; cat .local/share/opencode/auth.json",
	);
	expect(stdout.split("\n").slice(0, 2)).toEqual([
		"600 .config/opencode/opencode.json",
		"600 .local/share/opencode/auth.json",
	]);
	expect(JSON.parse(stdout.split("\n")[2]!)).toEqual(JSON.parse(String(authAfter(0))));
});

test("what the agent refreshed last is saved back when nothing runs any more, and only then may another have it", async () => {
	const { credentials } = stage.store;
	const order: string[] = [];
	const noting = <T extends object>(thing: T, names: (keyof T)[]) =>
		changed(
			thing,
			Object.fromEntries(
				names.map((name) => [
					name,
					async (...values: unknown[]) => {
						order.push(String(name));
						return await (thing[name] as (...values: unknown[]) => unknown)(...values);
					},
				]),
			) as Partial<T>,
		);
	const login = await plant({
		box: noting(box, ["killAll"]),
		credentials: noting(credentials, ["save", "release"]),
	});
	await box.spawn(["sleep", "1000"]);
	await rotate(1);
	await login.takeBack();
	await login.takeBack();
	expect(order).toEqual(["killAll", "save", "release"]);
	expect((await box.exec("pgrep -c sleep")).stdout.trim()).toBe("0");
	expect(said).toEqual([]);
	expect(await credentials.find("ada")).toMatchObject({ version: 2, holders: [] });
	expect(await stage.storedRotation()).toBe(1);
});

test("one that never came into a box is given back all the same", async () => {
	const { credentials } = stage.store;
	const held = await holdCredential(credentials, "ada", "rollout");
	await new PlantedLogin({ credentials, held, say: () => {}, warn: () => {} }).takeBack();
	expect(await credentials.find("ada")).toMatchObject({ version: 1, holders: [] });
});

const BREAKS: Record<string, () => Promise<never>> = {
	throws: async () => {
		throw new Error("broken");
	},
	hangs: () => new Promise<never>(() => {}),
};

test.for(Object.entries(BREAKS))(
	"ending the agent %s: the login is saved back and given up all the same",
	async ([, act]) => {
		const login = await plant({ box: changed(box, { killAll: act }) });
		await rotate(1);
		vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
		const ending = login.takeBack();
		await vi.advanceTimersByTimeAsync(8_000);
		vi.useRealTimers();
		await ending;
		expect(said).toEqual([expect.stringContaining("ending what uses the login")]);
		expect(await stage.storedRotation()).toBe(1);
		expect(await stage.store.credentials.find("ada")).toMatchObject({ holders: [] });
	},
);

test("a box that answers again in time gives up its newest login", async () => {
	let failures = 3;
	const failing: Sandbox["readFile"] = async (...what) => {
		if (failures-- > 0) throw new Error("broken");
		return await box.readFile(...what);
	};
	const login = await plant({ box: changed(box, { readFile: failing }) });
	await rotate(1);
	await login.takeBack();
	expect(said).toEqual([]);
	expect(await stage.storedRotation()).toBe(1);
	expect(await stage.store.credentials.find("ada")).toMatchObject({ state: "unknown", holders: [] });
});

test.for(Object.entries(BREAKS))(
	"reading the box %s to the end: nobody gets a login that may be spent, before somebody has looked",
	async ([, act]) => {
		const login = await plant({ box: changed(box, { readFile: act }) });
		vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
		// The signal's own clock is nobody's to turn.
		vi.spyOn(AbortSignal, "timeout").mockReturnValue(AbortSignal.abort());
		const ending = login.takeBack();
		await vi.advanceTimersByTimeAsync(2_000);
		vi.useRealTimers();
		vi.restoreAllMocks();
		await ending;
		expect(said).toEqual([expect.stringContaining("saving the login back")]);
		expect(await stage.store.credentials.find("ada")).toMatchObject({
			...{ state: "quarantined", version: 1, holders: [], quarantine: [] },
			reason: expect.stringContaining("could not be read"),
		});
	},
);

test("a store that is away when the box cannot be read hears of it when it is back, and nobody has it in between", async () => {
	const { credentials } = stage.store;
	let isAway = true;
	const passing = changed(credentials, {
		quarantine: async (...what) => {
			if (isAway) throw new OutageError("away");
			await credentials.quarantine(...what);
		},
	});
	const login = await plant({ credentials: passing });
	await box.writeFile(`${box.home}/${AUTH_FILE}`, authAfter(1).subarray(0, 40));
	await login.takeBack();
	await expect(credentials.acquire("ada", "next", 0)).rejects.toMatchObject({ code: "credential_held" });
	isAway = false;
	await vi.waitFor(async () => expect((await credentials.find("ada"))?.holders).toEqual([]), 10_000);
	expect(await credentials.find("ada")).toMatchObject({ state: "quarantined", version: 1 });
});

test("giving it back fails: what was saved is saved, and it is said", async () => {
	const login = await plant({ credentials: changed(stage.store.credentials, { release: BREAKS.throws! }) });
	await rotate(1);
	await login.takeBack();
	expect(said).toEqual(["giving the login back: broken"]);
	expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 2, holders: [{}] });
});

test("a store that is away at the end gets the newest login when it is back, and nobody has it in between", async () => {
	const { credentials } = stage.store;
	let isAway = true;
	const passing = changed(credentials, {
		save: async (hold, secret) => {
			if (isAway) throw new OutageError("away");
			return await credentials.save(hold, secret);
		},
	});
	const login = await plant({ credentials: passing });
	await rotate(1);
	await login.takeBack();
	expect(said).toContain("the newest login is not stored yet: it is kept in memory and tried again");
	await expect(credentials.acquire("ada", "next", 0)).rejects.toMatchObject({ code: "credential_held" });
	await box[Symbol.asyncDispose]();
	isAway = false;
	await vi.waitFor(async () => expect((await credentials.find("ada"))?.holders).toEqual([]), 10_000);
	expect(await stage.storedRotation()).toBe(1);
});

test("who lost it writes nothing more: the next holder's login stays as it is, and the old one's is put aside", async () => {
	const { credentials } = stage.store;
	const hold = await credentials.acquire("ada", "rollout", 0);
	const lost = new AbortController();
	const held = { hold, ttlMs: 0, lost: lost.signal, [Symbol.asyncDispose]: () => credentials.release(hold) };
	const login = new PlantedLogin({ credentials, held, say: (text) => void said.push(text), warn: () => {} });
	await login.plant(box);
	const next = await credentials.acquire("ada", "next", 60_000);
	await rotate(1);
	lost.abort();
	expect(login.lost.aborted).toBe(true);
	await login.takeBack();
	expect(said).toEqual([expect.stringContaining("was lost to another")]);
	expect(await credentials.look({ label: "ada", holder: "next", fence: next.fence })).toMatchObject({
		secret: next.secret,
		credential: { state: "quarantined", quarantine: [{ fence: hold.fence }] },
	});
});
