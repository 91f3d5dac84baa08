import { existsSync, statSync } from "node:fs";
import { chmod, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { CrashGuard } from "../../../src/agent/keeper/crash-guard.ts";
import { writeHome } from "../../../src/agent/keeper/home.ts";
import { type KeeperOptions, ServeKeeper } from "../../../src/agent/keeper/keeper.ts";
import { writeFakeServe } from "../../fakes/opencode-serve.ts";
import { openLiveAgent } from "../../fixtures/live-agent.ts";
import { bash, say } from "../../fixtures/script.ts";

const PASSWORD = "canary-password-0123456789";
const provider = {
	baseUrl: "http://127.0.0.1:1/v1",
	apiKey: "canary-key-0123456789",
	models: ["one", "two/three"],
};

describe("its home", () => {
	test("has the provider with all its models, and nobody else can read any of it, whatever the umask", async () => {
		await using place = await openPlace();
		const before = process.umask(0);
		try {
			await writeHome(place.home, provider);
		} finally {
			process.umask(before);
		}
		const path = join(place.home, ".config/opencode/opencode.json");
		const config = JSON.parse(await readFile(path, "utf8"));
		expect(config).toMatchObject({
			model: "paddock/one",
			provider: { paddock: { options: { apiKey: provider.apiKey } } },
		});
		expect(Object.keys(config.provider.paddock.models)).toEqual(provider.models);
		const all = await readdir(place.home, { recursive: true });
		for (const name of ["", ...all]) {
			const { mode } = statSync(join(place.home, name));
			expect(`${name} ${(mode & 0o077).toString(8)}`).toBe(`${name} 0`);
		}
		expect(await writeHome(place.home, provider)).toBe(false);
		expect(await writeHome(place.home, { ...provider, models: ["other"] })).toBe(true);
	});
});

/** With a program that behaves as the binary does when nothing goes wrong, and otherwise as it can hardly be made to. */
describe("a start", () => {
	test("is one, however many ask; a healthy server is left as it is, a dead one replaced", async () => {
		await using place = await openPlace();
		const { keeper } = place;
		const urls = await Promise.all(Array.from({ length: 10 }, () => keeper.ensureRunning()));
		expect(new Set(urls.map(({ baseUrl }) => baseUrl)).size).toBe(1);
		await keeper.ensureRunning();
		expect(await place.starts()).toHaveLength(1);
		expect(keeper.isRunning).toBe(true);
		const ended = keeper.ended!;
		process.kill((await place.starts())[0]!, "SIGKILL");
		await ended;
		await keeper.ensureRunning();
		expect(await place.starts()).toHaveLength(2);
	});

	test("asks nothing before the server says that it listens", async () => {
		await using place = await openPlace();
		await place.keeper.ensureRunning();
		const requests = await place.note("requests");
		expect(requests.length).toBeGreaterThan(0);
		expect(requests.filter((request) => request.startsWith("early"))).toEqual([]);
	});

	test("that is slow is waited for, not repeated", async () => {
		await using place = await openPlace({ env: { FAKE_SLOW: "1500" } });
		await Promise.all([place.keeper.ensureRunning(), delay(300).then(() => place.keeper.ensureRunning())]);
		expect(await place.starts()).toHaveLength(1);
	});

	test("whose program ends fails at once with its last words, without its secrets", async () => {
		await using place = await openPlace({ env: { FAKE_EXIT: "1" } });
		const failing = place.keeper.ensureRunning();
		await expect(failing).rejects.toMatchObject({
			code: "agent_boot_failed",
			message: expect.stringContaining("it cannot start"),
		});
		await expect(failing).rejects.not.toMatchObject({ message: expect.stringContaining(PASSWORD) });
		expect(place.keeper.state).toBe("failed");
	});

	test("that never listens fails when time is up, and leaves no process and no open log", async () => {
		await using place = await openPlace({ env: { FAKE_MUTE: "1" }, times: { readyMs: 1_000 } });
		const before = await readdir("/proc/self/fd");
		await expect(place.keeper.ensureRunning()).rejects.toMatchObject({
			code: "agent_boot_timeout",
			retryable: true,
		});
		const [pid] = await place.starts();
		// Dead at once, and gone when its parent has taken note of it.
		await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false);
		expect((await readdir("/proc/self/fd")).length).toBeLessThanOrEqual(before.length);
	});

	test("that listens and never answers fails when time is up, however long a probe would wait", async () => {
		await using place = await openPlace({ times: { readyMs: 1_500, probeMs: 3_600_000 } });
		await writeFile(join(place.folder, "silent"), "");
		await expect(place.keeper.ensureRunning()).rejects.toMatchObject({
			code: "agent_boot_timeout",
			message: expect.stringContaining("listened but did not answer"),
		});
		expect((await place.note("requests")).length).toBeGreaterThan(0);
		const [pid] = await place.starts();
		await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false);
	});

	test("that ends without a word says that plainly", async () => {
		await using place = await openPlace({ env: { FAKE_EXIT: "silently" } });
		await expect(place.keeper.ensureRunning()).rejects.toMatchObject({
			code: "agent_boot_failed",
			message: expect.stringMatching(/it said nothing|exit code 3/),
		});
	});

	test("of a program that is not there says so", async () => {
		await using place = await openPlace({ binary: "/nowhere/opencode" });
		await expect(place.keeper.ensureRunning()).rejects.toMatchObject({ code: "agent_binary_missing" });
	});

	test("refuses a server that takes any password", async () => {
		await using place = await openPlace({ env: { FAKE_OPEN: "1" } });
		await expect(place.keeper.ensureRunning()).rejects.toMatchObject({ code: "agent_foreign_server" });
		const [started] = await place.starts();
		await expect.poll(() => existsSync(`/proc/${started}`)).toBe(false);
	});

	test("hands on nothing of our environment but what it must, and the caller's on top", async () => {
		process.env.PADDOCK_TEST_SECRET = "not for the agent";
		try {
			await using place = await openPlace({ env: { LANG: "C" } });
			await place.keeper.ensureRunning();
			const env = JSON.parse((await place.note("environment"))[0]!);
			expect(env).toMatchObject({ HOME: place.home, LANG: "C", OPENCODE_DISABLE_PROJECT_CONFIG: "1" });
			expect(env.PADDOCK_TEST_SECRET).toBeUndefined();
		} finally {
			delete process.env.PADDOCK_TEST_SECRET;
		}
	});

	test("needs a password", () => {
		expect(() => new ServeKeeper({ home: "/tmp/x", binary: "/x", password: "", provider })).toThrow(
			/password/,
		);
	});

	test("of a server that keeps dying takes longer each time, and then there is none", async () => {
		let now = 0;
		const guard = new CrashGuard(() => now);
		const rests: number[] = [];
		const wait = () =>
			guard.wait(async (ms) => {
				rests.push(ms);
				now += ms;
			}, Number.POSITIVE_INFINITY);
		for (let crash = 0; crash < 4; crash += 1) {
			guard.crashed();
			await wait();
		}
		expect(rests).toEqual([1_000, 2_000, 4_000, 8_000]);
		guard.crashed();
		await expect(wait()).rejects.toMatchObject({ code: "agent_crash_loop" });
		now += 300_000;
		await wait();
	});
});

describe("a running server", () => {
	test("that misses one probe stays; one that stays silent is ended before another is started", async () => {
		await using place = await openPlace({ times: { probeMs: 100, unhealthyMs: 500, pollMs: 50 } });
		await place.keeper.ensureRunning();
		await writeFile(join(place.folder, "silent"), "");
		const ensuring = place.keeper.ensureRunning();
		await place.until(async () => (await place.note("requests")).length > 3);
		await rm(join(place.folder, "silent"));
		await ensuring;
		expect(await place.starts()).toHaveLength(1);
		await writeFile(join(place.folder, "silent"), "");
		const replacing = place.keeper.ensureRunning();
		await place.until(async () => (await place.starts()).length === 2);
		const [first] = await place.starts();
		// Dead at once, and gone when its parent has taken note of it.
		await expect.poll(() => existsSync(`/proc/${first}`)).toBe(false);
		await rm(join(place.folder, "silent"));
		await replacing;
	});

	test("may say as much as it likes: it is not blocked, and its log stays small and private", async () => {
		await using place = await openPlace({
			env: { FAKE_FLOOD: String(100 * 1024 * 1024) },
			maxLogBytes: 1024 * 1024,
		});
		await place.keeper.ensureRunning();
		const logs = () =>
			["", ".1", ".2", ".3"].map((end) => `${place.keeper.logPath}${end}`).filter(existsSync);
		await place.until(async () => logs().length > 1 && statSync(place.keeper.logPath).size < 1024 * 1024);
		await place.keeper.ensureRunning();
		for (const log of logs()) expect(statSync(log).mode & 0o077).toBe(0);
	});

	test("is not written through a link that was laid where its log should be", async () => {
		await using place = await openPlace();
		await writeHome(place.home, provider);
		await writeFile(join(place.folder, "target"), "");
		await symlink(join(place.folder, "target"), join(place.home, "serve.log"));
		await expect(place.keeper.ensureRunning()).rejects.toThrow(/ELOOP/);
		expect(await place.starts()).toEqual([]);
	});

	test("knows when its configuration was changed since it started", async () => {
		await using place = await openPlace();
		await place.keeper.ensureRunning();
		expect(place.keeper.needsRestart).toBe(false);
		await place.keeper.configure({ ...provider, models: ["other"] });
		expect(place.keeper.needsRestart).toBe(true);
	});
});

describe("a stop", () => {
	test("may come twice at once, during a start, and when nothing runs", async () => {
		await using place = await openPlace({ env: { FAKE_SLOW: "60000" } });
		await place.keeper.stop();
		const starting = place.keeper.ensureRunning().catch((error: unknown) => error);
		await place.until(async () => (await place.starts()).length === 1);
		await Promise.all([place.keeper.stop(), place.keeper.stop()]);
		expect(await starting).toMatchObject({ code: "agent_boot_failed" });
		const [started] = await place.starts();
		await expect.poll(() => existsSync(`/proc/${started}`)).toBe(false);
		expect(place.keeper.state).toBe("stopped");
	});

	test("ends a server that does not obey", async () => {
		await using place = await openPlace({ env: { FAKE_STUBBORN: "1" }, times: { termMs: 300 } });
		await place.keeper.ensureRunning();
		await place.keeper.stop();
		expect(await place.note("terms")).toEqual(["TERM"]);
		const [started] = await place.starts();
		await expect.poll(() => existsSync(`/proc/${started}`)).toBe(false);
	});
});

describe("after a restart of ours", () => {
	test("the server that still runs is taken over, and ended like any other", async () => {
		await using place = await openPlace();
		const { baseUrl } = await place.keeper.ensureRunning();
		await using next = place.another();
		expect(await next.ensureRunning()).toEqual({ baseUrl });
		expect(await place.starts()).toHaveLength(1);
		await next.stop();
		const [started] = await place.starts();
		await expect.poll(() => existsSync(`/proc/${started}`)).toBe(false);
	});

	test("one that does not take our password is ended, and another started", async () => {
		await using place = await openPlace();
		await place.keeper.ensureRunning();
		await using next = place.another({
			password: "another-password-0123456789",
			times: { unhealthyMs: 100, pollMs: 20 },
		});
		await next.ensureRunning();
		const [first, second] = await place.starts();
		// Dead at once, and gone when its parent has taken note of it.
		await expect.poll(() => existsSync(`/proc/${first}`)).toBe(false);
		expect(existsSync(`/proc/${second}`)).toBe(true);
	});

	test("a process that only has the number of the old server is left alone", async () => {
		await using place = await openPlace();
		const record = { pid: process.pid, startTime: "1", baseUrl: "http://127.0.0.1:1", mark: "none" };
		await writeHome(place.home, provider);
		await writeFile(join(place.home, "server.json"), JSON.stringify(record));
		await place.keeper.ensureRunning();
		expect(await place.starts()).toHaveLength(1);
	});
});

test("a stop while the real agent runs commands, in the foreground and behind, leaves no process", async () => {
	await using agent = await openLiveAgent("allow");
	const command = "sleep 301 & echo $! > behind; echo $$ > before; sleep 302";
	await agent.play([bash(command), say("x")]);
	const directory = await agent.folder();
	await using talk = await agent.open(directory);
	await talk.send("Go");
	const pids = async () =>
		await Promise.all(
			["before", "behind"].map((name) => readFile(join(directory, name), "utf8").catch(() => "")),
		);
	while ((await pids()).some((pid) => pid.trim() === "")) await delay(20);
	const found = (await pids()).map((pid) => pid.trim());
	for (const pid of found) expect(existsSync(`/proc/${pid}`)).toBe(true);
	await agent.keeper.stop();
	for (const pid of found) while (existsSync(`/proc/${pid}`)) await delay(20);
	expect(await talk.closed).toMatchObject({ code: "agent_crashed" });
}, 120_000);

async function openPlace(change: Partial<KeeperOptions> = {}) {
	const folder = await mkdtemp(join(tmpdir(), "paddock-keeper-"));
	await chmod(folder, 0o700);
	const home = join(folder, "home");
	const binary = await writeFakeServe(folder);
	const keepers: ServeKeeper[] = [];
	const another = (more: Partial<KeeperOptions> = {}) => {
		const keeper = new ServeKeeper({ home, binary, password: PASSWORD, provider, ...change, ...more });
		keepers.push(keeper);
		return keeper;
	};
	const note = async (name: string) => {
		const text = await readFile(join(folder, name), "utf8").catch(() => "");
		return text.split("\n").filter((line) => line !== "");
	};
	return {
		folder,
		home,
		another,
		keeper: another(),
		note,
		starts: async () => (await note("starts")).map(Number),
		async until(found: () => Promise<boolean>) {
			while (!(await found())) await delay(20);
		},
		async [Symbol.asyncDispose]() {
			for (const keeper of keepers) await keeper.stop();
			await rm(folder, { recursive: true, force: true });
		},
	};
}
