import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { identify } from "../../src/agent/keeper/processes.ts";
import { writeFakeServe } from "../fakes/opencode-serve.ts";
import { filesHolding } from "../fixtures/evidence.ts";
import { Paddock, type Started } from "./paddock.ts";

const CANARY = "sk-canary-39b0d1aa7e";
const LONG = 120_000;
const ADD = ["agent", "add", "helper", "--base-url", "http://127.0.0.1:9/v1", "--model", "small"];

test("an agent is added, started, taken over after its keeper was killed, stopped from elsewhere, and removed", {
	timeout: 2 * LONG,
}, async () => {
	await using paddock = await Paddock.open();
	// Whatever fails below, no agent is left behind: before the home goes.
	await using _stopping = {
		[Symbol.asyncDispose]: async () => void (await paddock.run(["agent", "stop", "helper"])),
	};
	const ask = async (...args: string[]) => {
		const { code, stdout, stderr } = await paddock.run(["agent", ...args]);
		expect(stdout + stderr).not.toContain(CANARY);
		return { code, said: stdout + stderr };
	};
	expect((await ask("list")).said).toContain("No agents here");
	const added = await paddock.run(
		[...ADD, "--model", "large", "--max-tokens", "500", "--api-key-env", "THE_KEY"],
		{ env: { THE_KEY: CANARY } },
	);
	expect(added).toMatchObject({ code: 0, stdout: expect.stringContaining("paddock agent start helper") });
	expect((await ask("list")).said).toMatch(/helper +small, large +gateway +0 +0 +500 +stopped/);
	expect(await ask("access", "helper")).toMatchObject({
		code: 2,
		said: expect.stringMatching(/does not run/),
	});

	const first = paddock.start(["agent", "start", "helper"]);
	const url = await addressOf(first);
	const pid = serverOf(paddock);
	expect((await ask("list")).said).toContain(`running  ${url}`);
	expect((await ask("access", "helper")).said).toContain(`OPENCODE_SERVER_URL=${url}`);
	expect(await ask("start", "helper")).toMatchObject({
		code: 2,
		said: expect.stringContaining("another process"),
	});

	// The launcher and the program below it: nobody can say good-bye.
	process.kill(keeperOf(await ask("list", "--json")), "SIGKILL");
	await first.ended;
	expect(existsSync(`/proc/${pid}`)).toBe(true);

	const second = paddock.start(["agent", "start", "helper"]);
	expect(await addressOf(second)).toBe(url);
	expect(serverOf(paddock)).toBe(pid);
	expect((await ask("logs", "helper")).said).toContain("listening on");
	expect(await ask("stop", "helper")).toMatchObject({ code: 0 });
	expect(await second.ended).toMatchObject({ code: 0, stderr: expect.stringContaining("it was stopped") });
	// Its parent was killed: who takes note of its end is up to the machine.
	expect(await identify(pid)).toBeNull();

	expect(await filesHolding(paddock.home, CANARY)).toEqual([]);
	expect((await ask("change", "helper", "--key", "revoked")).code).toBe(0);
	expect((await ask("list")).said).toContain("revoked");
	expect((await ask("remove", "helper")).said).toContain("Removed helper");
	expect((await ask("remove", "helper")).code).toBe(2);
});

test("a Ctrl-C while the agent starts ends what has been started, and leaves no server behind", {
	timeout: LONG,
}, async () => {
	await using paddock = await Paddock.open();
	const binary = join(paddock.home, "slow-opencode");
	const note = join(paddock.home, "started");
	// It says that it is there, and takes its time to listen.
	writeFileSync(binary, `#!/bin/sh\necho $$ > ${note}.new; mv ${note}.new ${note}; exec sleep 300\n`, {
		mode: 0o755,
	});
	expect(await paddock.run([...ADD, "--binary", binary, "--direct"])).toMatchObject({ code: 0 });
	const starting = paddock.start(["agent", "start", "helper"]);
	await expect.poll(() => existsSync(note), { timeout: LONG }).toBe(true);
	const pid = Number(readFileSync(note, "utf8"));
	starting.child.kill("SIGINT");
	await starting.ended;
	expect(identify(pid)).toBeNull();
	expect(existsSync(join(paddock.home, "data/agents/helper/server.json"))).toBe(false);
});

test("an agent that goes straight to its endpoint is kept until its command is told to end, and not a moment longer", {
	timeout: LONG,
}, async () => {
	await using paddock = await Paddock.open();
	const binary = await writeFakeServe(paddock.home);
	expect(await paddock.run([...ADD, "--binary", binary, "--direct"])).toMatchObject({ code: 0 });
	const keeping = paddock.start(["agent", "start", "helper"]);
	await addressOf(keeping);
	const pid = serverOf(paddock);
	// Long enough for a process that nothing keeps to end by itself.
	expect((await paddock.run(["agent", "list"])).stdout).toMatch(/running/);
	expect({ code: keeping.child.exitCode, server: identify(pid)?.pid }).toEqual({ code: null, server: pid });
	keeping.child.kill("SIGTERM");
	await keeping.ended;
	expect(identify(pid)).toBeNull();
});

async function addressOf(started: Started): Promise<string> {
	await expect.poll(() => started.stdout + started.stderr, { timeout: LONG }).toMatch(/is at http:\S+\.\s/);
	return /is at (http:\S+)\.\s/.exec(started.stdout)![1]!;
}

function serverOf(paddock: Paddock): number {
	return JSON.parse(readFileSync(join(paddock.home, "data/agents/helper/server.json"), "utf8")).pid;
}

function keeperOf({ said }: { said: string }): number {
	return JSON.parse(said).keptBy.pid;
}
