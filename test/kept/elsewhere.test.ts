import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, readdir, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { driveTurn, type TurnReply } from "../../src/conversation/drive-turn.ts";
import { Hosts } from "../../src/host/hosts.ts";
import { AgentHost } from "../../src/kept/host.ts";
import { createApp } from "../../src/server/app.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { Paddock } from "../cli/paddock.ts";
import { filesHolding } from "../fixtures/evidence.ts";
import { type NamedHost, startNamedHost } from "../fixtures/named-host.ts";
import { openTestPaddock } from "../fixtures/paddock.ts";
import { requirePart } from "../fixtures/parts.ts";
import { bash, openScriptedModel, say } from "../fixtures/script.ts";
import { missingForSshd } from "../fixtures/sshd.ts";
import { clientOf } from "../server/caller.ts";

const run = promisify(execFile);
const LONG = 120_000;
const API_KEY = "sk-canary-of-the-endpoint-5582";
const missing = missingForSshd();
const stack = new AsyncDisposableStack();
let big: NamedHost;
let home = "";
let store: Store;
let host: AgentHost;

beforeAll(async () => {
	if (missing !== null) return;
	home = await realpath(await mkdtemp(join(tmpdir(), "paddock-kept-")));
	stack.defer(() => rm(home, { recursive: true, force: true }));
	big = stack.use(await startNamedHost());
	await new Hosts(home).add(big.record);
	store = stack.use(await openSqliteStore({ home }));
	host = stack.use(new AgentHost({ store, home, env: { PATH: process.env.PATH }, warn: () => {} }));
});
afterAll(() => stack.disposeAsync());
beforeEach((context) => requirePart(context, "sshd", missing === null, missing ?? ""));

async function ask(
	name: string,
	text: string,
	sessionId?: string,
): Promise<TurnReply & { sessionId: string }> {
	await using talk = await (await host.start(name)).open({
		directory: big.sshd.home,
		title: "test",
		sessionId,
	});
	let last: TurnReply | null = null;
	for await (const reply of driveTurn(talk, text)) last = reply;
	return { ...last!, sessionId: talk.sessionId! };
}

async function add(name: string, model: Awaited<ReturnType<typeof openScriptedModel>>): Promise<void> {
	const { endpoint } = model;
	await host.add({ name, endpoint, models: [endpoint.model], host: "big", permission: "allow" });
}

async function processes(pattern: string): Promise<string[]> {
	const { stdout } = await run("pgrep", ["-u", big.sshd.user, "-f", pattern]).catch(() => ({ stdout: "" }));
	return stdout.split("\n").filter(Boolean);
}

const SERVE = "agent serve --hostname";

test("an agent on another machine works there, has its models by way of the gateway here, and leaves nothing when it stops", {
	timeout: LONG,
}, async () => {
	await using model = await openScriptedModel(
		[bash("setsid -f sleep 97711 > /dev/null 2>&1; echo made there > made.txt"), say("It is done.")],
		{ apiKey: API_KEY },
	);
	await add("far", model);
	expect(await ask("far", "Make it.")).toMatchObject({ kind: "final", content: "It is done." });
	expect(readFileSync(join(big.sshd.home, "made.txt"), "utf8")).toBe("made there\n");
	expect(await processes(SERVE)).toHaveLength(1);
	expect(await processes("^sleep 97711$")).toHaveLength(1);
	await expect.poll(async () => (await host.find("far"))!.spent.calls).toBe(2);
	const agent = (await host.find("far"))!;
	expect(agent).toMatchObject({ host: "big", baseUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) });

	const { password } = await store.agents.secrets("far");
	const { stdout: shown } = await run("ps", ["-eo", "args"]);
	for (const secret of [API_KEY, password]) {
		expect(await filesHolding(big.sshd.home, secret)).toEqual([]);
		expect(shown).not.toContain(secret);
	}

	await host.stop("far");
	expect(await processes(SERVE)).toEqual([]);
	expect(await processes("^sleep 97711$")).toEqual([]);
	const there = join(big.sshd.home, ".local/share/paddock/agents");
	expect(await readdir(there)).toEqual([agent.id]);
	expect(await host.remove("far")).toBe(true);
	expect(await readdir(there)).toEqual([]);
	expect(existsSync(agent.home)).toBe(false);
});

test("a broken connection and a killed go-between end it there; it is started again, and goes on with its sessions", {
	timeout: LONG,
}, async () => {
	await using model = await openScriptedModel([say("first"), say("second"), say("third")]);
	await add("tough", model);
	const { keeper } = await host.start("tough");
	const { sessionId, ...first } = await ask("tough", "One.");
	expect(first).toMatchObject({ content: "first" });
	const server = () =>
		JSON.parse(readFileSync(join(home, "agents/tough/server.json"), "utf8")) as { pid: number };
	const ends = [() => big.sshd.breakConnections(), async () => void process.kill(server().pid, "SIGKILL")];
	for (const [index, end] of ends.entries()) {
		const [before] = await processes(SERVE);
		const { ended } = keeper;
		await end();
		await ended;
		await expect.poll(() => keeper.isRunning, { timeout: LONG / 2 }).toBe(true);
		expect(await ask("tough", "Go on.", sessionId)).toMatchObject({ content: ["second", "third"][index] });
		const now = await processes(SERVE);
		expect(now).toHaveLength(1);
		expect(now).not.toContain(before);
	}
	await host.stop("tough");
	await expect.poll(() => processes(SERVE)).toEqual([]);
	await host.remove("tough");
});

test("paddock agent add --host: it lives on while its keeper is killed, is taken over at the same address, and stopped from elsewhere", {
	timeout: 2 * LONG,
}, async () => {
	await using paddock = await Paddock.open();
	await new Hosts(join(paddock.home, "data")).add(big.record);
	const agent = (...args: string[]) => paddock.run(["agent", ...args]);
	await using _stopping = { [Symbol.asyncDispose]: async () => void (await agent("stop", "far")) };
	const add = ["add", "far", "--base-url", "http://127.0.0.1:9/v1", "--model", "small"];
	expect(await agent(...add, "--host", "nobody")).toMatchObject({ code: 2 });
	expect(await agent(...add, "--host", "big")).toMatchObject({ code: 0 });
	const keep = async () => {
		const started = paddock.start(["agent", "start", "far"]);
		const isUp = () => /http:\/\/127\.0\.0\.1:\d+/.exec(started.stdout + started.stderr)?.[0];
		await expect.poll(isUp, { timeout: LONG, interval: 50 }).toBeDefined();
		return { started, url: isUp()! };
	};
	const first = await keep();
	const there = await processes(SERVE);
	expect(there).toHaveLength(1);
	const { stdout: listed } = await agent("list", "--json");
	expect((await agent("list")).stdout).toContain(`${first.url} on big`);
	process.kill((JSON.parse(listed) as { keptBy: { pid: number } }).keptBy.pid, "SIGKILL");
	await first.started.ended;
	const second = await keep();
	expect(second.url).toBe(first.url);
	expect(await processes(SERVE)).toEqual(there);
	expect(await agent("stop", "far")).toMatchObject({ code: 0 });
	await second.started.ended;
	expect(await processes(SERVE)).toEqual([]);
	expect(await agent("remove", "far")).toMatchObject({ code: 0 });
});

test("a conversation is held with it over HTTP, in its folder there", { timeout: 2 * LONG }, async () => {
	await using model = await openScriptedModel([bash("pwd > where.txt"), say("written")]);
	await using station = await openTestPaddock({ PADDOCK_HOST_AGENTS: "1" });
	await new Hosts(station.home).add(big.record);
	const client = clientOf(createApp(station.paddock));
	const { endpoint } = model;
	const agent = { name: "talker", endpoint, models: [endpoint.model], permission: "allow" as const };
	const { id: agentId } = await client.addAgent({ ...agent, host: "big" });
	const { id } = await client.converse({
		keptAgent: "talker",
		text: "Begin.",
		agent: { permission: "allow" },
	});
	for await (const event of client.conversationEvents(id))
		if (event.type === "turn-end" || event.type === "conversation-end") {
			expect(event).toMatchObject({ type: "turn-end", text: "written" });
			break;
		}
	const work = join(big.sshd.home, ".local/share/paddock/agents", agentId, "work");
	expect(readFileSync(join(work, "where.txt"), "utf8")).toBe(`${work}\n`);
	await expect(client.converse({ keptAgent: "talker", folder: "/srv" })).rejects.toMatchObject({
		code: "folder_refused",
	});
	await client.closeConversation(id);
	await client.removeAgent("talker");
	expect(await processes(SERVE)).toEqual([]);
});

test("an agent that is not the installed one is not started, and what cannot be is refused when it is added", {
	timeout: LONG,
}, async () => {
	await using model = await openScriptedModel([say("never")]);
	const hosts = new Hosts(home);
	const { agent: installed } = await hosts.find("big");
	const other = { path: join(big.sshd.home, "made.txt"), sha256: "0".repeat(64), version: "1.2.3" };
	await hosts.change("big", { agent: other });
	await add("changed", model);
	await expect(host.start("changed")).rejects.toThrow(/is not the agent that was installed there/);
	await hosts.change("big", { agent: installed });
	await host.remove("changed");

	const agent = { name: "no", endpoint: model.endpoint, models: ["m"], host: "big" };
	for (const wrong of [{ via: "direct" as const }, { binary: "/bin/true" }])
		await expect(host.add({ ...agent, ...wrong })).rejects.toMatchObject({ code: "bad_agent" });
	await expect(host.add({ ...agent, host: "nobody" })).rejects.toMatchObject({ code: "unknown_host" });
});
