import { once } from "node:events";
import { existsSync, readdirSync, readlinkSync, statSync } from "node:fs";
import { chmod, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { CrashGuard } from "../../../src/agent/keeper/crash-guard.ts";
import { writeHome } from "../../../src/agent/keeper/home.ts";
import { type KeeperOptions, ServeKeeper } from "../../../src/agent/keeper/keeper.ts";
import { KEEPER_TIMES } from "../../../src/agent/keeper/readiness.ts";
import { writeFakeServe } from "../../fakes/opencode-serve.ts";
import { openLiveAgent } from "../../fixtures/live-agent.ts";
import { bash, say } from "../../fixtures/script.ts";

const PASSWORD = "canary-password-0123456789";

/** All that a server is given beside what it inherits; the caller's own come on top. */
const ENVIRONMENT = [
	"HOME",
	"OPENCODE_DB",
	"OPENCODE_DISABLE_AUTOUPDATE",
	"OPENCODE_DISABLE_CLAUDE_CODE",
	"OPENCODE_DISABLE_DEFAULT_PLUGINS",
	"OPENCODE_DISABLE_EXTERNAL_SKILLS",
	"OPENCODE_DISABLE_FFF",
	"OPENCODE_DISABLE_LSP_DOWNLOAD",
	"OPENCODE_DISABLE_MODELS_FETCH",
	"OPENCODE_DISABLE_PROJECT_CONFIG",
	"OPENCODE_DISABLE_SHARE",
	"OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER",
	"OPENCODE_MODELS_PATH",
	"OPENCODE_SERVER_PASSWORD",
	"PADDOCK_SERVER_MARK",
	"TERM",
	"TMPDIR",
];
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

	test("is nobody else's at any moment of the writing, either", async () => {
		await using place = await openPlace();
		const before = process.umask(0);
		const seen = new Set<string>();
		const open = new Set<string>();
		let isWriting = true;
		const look = () => {
			for (const name of ["", ...readdirSync(place.home, { recursive: true }).map(String)]) {
				const found = statSync(join(place.home, name), { throwIfNoEntry: false });
				seen.add(name);
				if (found && (found.mode & 0o077) !== 0) open.add(name);
			}
			if (isWriting) setImmediate(look);
		};
		try {
			const models = Array.from({ length: 2_000 }, (_, n) => `model-${n}`);
			const writing = writeHome(place.home, provider);
			while (!existsSync(place.home)) await new Promise(setImmediate);
			look();
			await writing;
			for (let round = 1; round <= 10; round += 1)
				await writeHome(place.home, { ...provider, models: models.slice(round) });
		} finally {
			isWriting = false;
			process.umask(before);
		}
		// The drafts were looked at, not only what they became.
		expect([...seen].some((name) => /opencode\.json\.[0-9a-f]{12}$/.test(name))).toBe(true);
		expect([...open]).toEqual([]);
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

	test.each(["/nowhere/opencode", "opencode"])(
		"of a program that is not there (%s) says so, and leaves neither an open log nor a record",
		async (binary) => {
			await using place = await openPlace({ binary });
			await expect(place.keeper.ensureRunning()).rejects.toMatchObject({ code: "agent_binary_missing" });
			const links = readdirSync("/proc/self/fd").map((fd) => {
				try {
					return readlinkSync(`/proc/self/fd/${fd}`);
				} catch {
					return ""; // Closed meanwhile.
				}
			});
			expect(links.filter((link) => link.startsWith(place.folder))).toEqual([]);
			expect(existsSync(join(place.home, "server.json"))).toBe(false);
		},
	);

	test("knows the server by the address that it says, in whatever words", async () => {
		const words = "The model is at http://127.0.0.1:1/v1, help at http://example.com/ - ready:";
		await using place = await openPlace({ env: { FAKE_WORDS: words } });
		const { baseUrl } = await place.keeper.ensureRunning();
		expect(baseUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d\d+$/);
	});

	test("refuses a server on its port that is not the one it started, though it knows the password", async () => {
		const login = `Basic ${Buffer.from(`opencode:${PASSWORD}`).toString("base64")}`;
		const foreign = createServer(({ headers }, response) => {
			response.writeHead(headers.authorization === login ? 200 : 401, { "content-type": "application/json" });
			response.end('{"healthy":true,"version":"foreign"}');
		});
		foreign.listen(0, "127.0.0.1");
		await once(foreign, "listening");
		try {
			const { port } = foreign.address() as AddressInfo;
			await using place = await openPlace({ env: { FAKE_PORT: String(port) } });
			await expect(place.keeper.ensureRunning()).rejects.toMatchObject({ code: "agent_foreign_server" });
			expect(place.keeper.baseUrl).toBeNull();
		} finally {
			foreign.close();
		}
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
			expect(env).toMatchObject({
				HOME: place.home,
				LANG: "C",
				TMPDIR: join(place.home, "tmp"),
				OPENCODE_DB: join(place.home, "data", "opencode.db"),
				OPENCODE_DISABLE_AUTOUPDATE: "1",
				OPENCODE_DISABLE_PROJECT_CONFIG: "1",
			});
			const ours = Object.keys(env).filter((name) => !["PATH", "LANG", "LC_ALL", "TZ"].includes(name));
			expect(ours.sort()).toEqual(ENVIRONMENT);
		} finally {
			delete process.env.PADDOCK_TEST_SECRET;
		}
	});

	test("needs a password", () => {
		expect(() => new ServeKeeper({ home: "/tmp/x", binary: "/x", password: "", provider })).toThrow(
			/password/,
		);
	});

	test("of a server that keeps dying is put off longer each time, and then refused", async () => {
		const rests: number[] = [];
		let skippedMs = 0;
		await using place = await openPlace({
			times: {
				now: () => Date.now() + skippedMs,
				// Looks are looks; a rest is only written down.
				sleep: async (ms, signal) => {
					if (ms <= KEEPER_TIMES.pollMs) return await KEEPER_TIMES.sleep(ms, signal);
					rests.push(ms);
					skippedMs += ms;
				},
			},
		});
		for (let crash = 1; crash <= 5; crash += 1) {
			await place.keeper.ensureRunning();
			const ended = place.keeper.ended!;
			process.kill((await place.starts()).at(-1)!, "SIGKILL");
			await ended;
		}
		await expect(place.keeper.ensureRunning()).rejects.toMatchObject({
			code: "agent_crash_loop",
			retryable: false,
		});
		expect(await place.starts()).toHaveLength(5);
		expect(place.keeper.state).toBe("failed");
		expect(rests.map((ms) => Math.ceil(ms / 1_000))).toEqual([1, 2, 4, 8]);
		skippedMs += 300_000;
		await place.keeper.ensureRunning();
	});

	test("that was stopped on purpose is no crash: the next one is neither put off nor refused", async () => {
		const rests: number[] = [];
		await using place = await openPlace({
			env: { FAKE_SLOW: "60000" },
			times: {
				sleep: async (ms, signal) => {
					if (ms > KEEPER_TIMES.pollMs) rests.push(ms);
					await KEEPER_TIMES.sleep(Math.min(ms, KEEPER_TIMES.pollMs), signal);
				},
			},
		});
		for (let start = 1; start <= 6; start += 1) {
			const starting = place.keeper.ensureRunning().catch((error: unknown) => error);
			await Promise.race([starting, place.until(async () => (await place.starts()).length === start)]);
			await place.keeper.stop();
			expect(await starting).toMatchObject({ code: "agent_boot_failed" });
		}
		expect(rests).toEqual([]);
	});

	test("of a server that keeps dying rests as long as the guard says", async () => {
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
		await rm(join(place.folder, "silent"));
		await replacing;
		// Each start notes which of those before it still live.
		expect(await place.note("beside")).toEqual([]);
	});

	test("may say as much as it likes: it is not blocked, and its log stays small and private", async () => {
		await using place = await openPlace({
			env: { FAKE_FLOOD: String(100 * 1024 * 1024) },
			maxLogBytes: 1024 * 1024,
		});
		await place.keeper.ensureRunning();
		const { logPath } = place.keeper;
		await place.until(async () => (await place.note("flooded")).length > 0);
		await place.until(async () => statSync(logPath).size <= 1024 * 1024);
		await place.keeper.ensureRunning();
		const older = [1, 2, 3, 4].map((age) => `${logPath}.${age}`).filter(existsSync);
		expect(older.length).toBeGreaterThan(0);
		for (const log of [logPath, ...older]) {
			const { mode, size } = statSync(log);
			expect(mode & 0o077).toBe(0);
			expect(size).toBeLessThanOrEqual(1024 * 1024);
		}
		expect(existsSync(`${logPath}.4`)).toBe(false);
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

test("an agent kept with deny runs nothing and asks nothing, however willing who is attached to it would be", async () => {
	await using agent = await openLiveAgent("deny");
	const asking = {
		tool: "question",
		args: { questions: [{ question: "May I?", header: "May", options: [] }] },
	};
	await agent.play([bash("touch forbidden"), { calls: [asking] }, say("Then not.")]);
	const directory = await agent.folder();
	await using talk = await agent.open(directory);
	const asks: string[] = [];
	using _decide = talk.decideWith(async ({ tool }) => {
		asks.push(tool);
		return { behavior: "allow", by: "test" };
	});
	using _answer = talk.answerWith(async () => {
		asks.push("question");
		return { answers: [[]], by: "test" };
	});
	const texts: string[] = [];
	talk.subscribe((event) => event.type === "turn-end" && texts.push(event.turn.text));
	await talk.send("Go");
	await talk.settled();
	expect({ asks, texts }).toEqual({ asks: [], texts: ["Then not."] });
	expect(existsSync(join(directory, "forbidden"))).toBe(false);
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
