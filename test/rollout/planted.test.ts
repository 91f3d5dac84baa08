import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { holdCredential } from "../../src/credential/hold.ts";
import { AUTH_FILE, CONFIG_FILE } from "../../src/credential/login.ts";
import { OutageError } from "../../src/errors.ts";
import { BoxSpec } from "../../src/model/task.ts";
import { PlantedLogin } from "../../src/rollout/login/planted.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Backend, Sandbox } from "../../src/sandbox/sandbox.ts";
import type { Credentials } from "../../src/store/credentials.ts";
import { keeping } from "../../src/verbs/credentials.ts";
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

interface Planting {
	box?: Sandbox;
	credentials?: Credentials;
	label?: string;
}

async function plant(options: Planting = {}): Promise<PlantedLogin> {
	const { credentials = stage.store.credentials, label = "ada" } = options;
	const held = await holdCredential(credentials, label, "rollout");
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
	// The watch's timer, and later the hold's.
	const ended = vi.spyOn(globalThis, "clearInterval").mockImplementation((timer) => {
		order.push("timer");
		clearTimeout(timer);
	});
	await login.takeBack();
	await login.takeBack();
	ended.mockRestore();
	expect(order).toEqual(["killAll", "timer", "save", "timer", "release"]);
	expect((await box.exec("pgrep -c sleep")).stdout.trim()).toBe("0");
	expect(said).toEqual([]);
	expect(await credentials.find("ada")).toMatchObject({ version: 2, holders: [] });
	expect(await stage.storedRotation()).toBe(1);
});

test("what the watch finds is stored, and auth.json stays as the agent wrote it: neither touched nor replaced", async () => {
	vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
	const login = await plant();
	const file = `${box.home}/${AUTH_FILE}`;
	// Another provider's entry, which is not stored, would be the reason to write there.
	const written = { ...JSON.parse(String(authAfter(1))), other: { type: "api", key: "sk-other" } };
	await box.writeFile(file, Buffer.from(JSON.stringify(written)));
	const facts = async () => (await box.exec(["stat", "-c", "%i %y %z %s %a", file])).stdout;
	const before = await facts();
	vi.advanceTimersByTime(2_000);
	vi.useRealTimers();
	const isStored = async () =>
		expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 2 });
	await vi.waitFor(isStored, 10_000);
	expect(await facts()).toBe(before);
	await login.takeBack();
	expect(await facts()).toBe(before);
	expect(await stage.storedRotation()).toBe(1);
});

test.for([
	["a file larger than any login", "head -c 3000000 /dev/zero > auth.json"],
	["a pipe that nobody writes to", "rm auth.json; mkfifo auth.json"],
	["a device without an end", "ln -sf /dev/zero auth.json"],
	["a link to what others may not see", "ln -sf /etc/shadow auth.json"],
	["a folder", "rm auth.json; mkdir auth.json"],
])("%s in the place of auth.json is not read, and costs nobody more than the login", async ([, spoil]) => {
	const login = await plant();
	const { exitCode } = await box.exec(`cd ~/.local/share/opencode && ${spoil}`);
	expect(exitCode).toBe(0);
	vi.spyOn(AbortSignal, "timeout").mockReturnValue(AbortSignal.abort());
	await login.learn();
	await login.takeBack();
	vi.restoreAllMocks();
	expect(await stage.store.credentials.find("ada")).toMatchObject({
		...{ state: "quarantined", version: 1, holders: [], quarantine: [] },
	});
	expect(await stage.storedRotation()).toBe(0);
});

test("a login that was captured in one home lies in a box as it was there, and nothing else of that home", async () => {
	const home = await mkdtemp(join(tmpdir(), "paddock-captured-"));
	const plugin = ".config/opencode/plugin/acme.js";
	const content: Record<string, string> = {
		[AUTH_FILE]: JSON.stringify({
			...JSON.parse(String(authAfter(3))),
			other: { type: "api", key: "sk-other" },
		}),
		[CONFIG_FILE]: JSON.stringify({ model: "acme/large", theme: "dark" }),
		[plugin]: "export const Acme = async () => ({});",
		".local/share/opencode/opencode.db": "what was said",
		".ssh/id_ed25519": "a key",
	};
	for (const [path, text] of Object.entries(content)) {
		await mkdir(dirname(join(home, path)), { recursive: true });
		await writeFile(join(home, path), text);
	}
	const { capture } = keeping(stage.store, async () => expect.unreachable());
	await capture(home, { label: "captured", plugins: true, hosts: ["acme.example"] });
	await rm(home, { recursive: true });
	await using login = await plant({ label: "captured" });
	expect(login.model).toBe("acme/large");
	const { stdout } = await box.exec("cd ~ && find . -type f -printf '%m %P\\n' | sort");
	expect(stdout.trim().split("\n")).toEqual([CONFIG_FILE, plugin, AUTH_FILE].map((path) => `600 ${path}`));
	const read = async (path: string) => String(await box.readFile(`${box.home}/${path}`));
	expect(JSON.parse(await read(AUTH_FILE))).toEqual(JSON.parse(String(authAfter(3))));
	expect(JSON.parse(await read(CONFIG_FILE))).toMatchObject({ model: "acme/large", theme: "dark" });
	expect(await read(plugin)).toBe(content[plugin]);
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
		// As if the time for the last look were up.
		vi.spyOn(AbortSignal, "timeout").mockReturnValue(AbortSignal.abort());
		await login.takeBack();
		vi.restoreAllMocks();
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
