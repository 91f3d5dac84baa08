import { beforeEach, expect, test } from "vitest";
import type { Agent } from "../../src/agent/agent.ts";
import { planCgroup } from "../../src/sandbox/local/cgroup.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Backend, Sandbox } from "../../src/sandbox/sandbox.ts";
import { firstProcessOf } from "../fixtures/first-process.ts";
import { requirePart } from "../fixtures/parts.ts";
import { task } from "../fixtures/script.ts";
import { changed, openStage, scriptAgent, scriptConversation } from "./fixture.ts";

/*
 * The kernel kills a box's init when nothing else is left to kill for memory. Which moment that is cannot be chosen, so here memory is
 * used up first, which the kernel counts, and the init is killed from outside.
 */

const clocks = { createS: 20, setupS: 20, agentS: 60, verifyS: 20, teardownS: 20 };
const box = { memoryMb: 512, diskMb: 16, pids: 64 };
const GLUTTON = `perl -e '$x = "x" x (2 << 30)'; true`;

beforeEach(async (context) => {
	const { version } = await planCgroup("broken-box-test");
	requirePart(context, "a writable cgroup", version !== "none", "run as root, or delegate a cgroup v2");
});

/** The box in which the init is killed as soon as a command that `isFatal` has run. */
function doomed(inner: Sandbox, isFatal: (command: string) => boolean): Sandbox {
	return changed(inner, {
		exec: async (command, options) => {
			const result = await inner.exec(command, options);
			const words = [String(command), ...Object.values(options?.env ?? {})];
			if (!isFatal(words.join(" "))) return result;
			process.kill(await firstProcessOf(inner.id), "SIGKILL");
			await inner.closed;
			return result;
		},
	});
}

/** Asks the model once, if it `asks`, and runs `script`, after which its box may die. */
function boldAgent(script: string, { asks = true, dies = true } = {}): Agent {
	const agent = scriptAgent(script);
	return {
		...agent,
		boot: async (box, options, key, signal) => ({
			...(await agent.boot(box, options, key, signal)),
			open: async (directory) => {
				const body = JSON.stringify({ model: "any", messages: [{ role: "user", content: "hello" }] });
				const header = ["-H", `authorization: Bearer ${key}`, "-H", "content-type: application/json"];
				if (asks)
					await box.exec(["curl", "-sS", `${box.gatewayUrl}/v1/chat/completions`, ...header, "-d", body]);
				return scriptConversation(dies ? doomed(box, () => true) : box, directory, script);
			},
		}),
	};
}

const asked = task({
	files: [{ path: "given", content: "1" }],
	verify: ["test -e given", "grep -q 42 answer"],
	clocks,
	box,
});

test("an agent that used up its box's memory to the last is verified on what it was given", async () => {
	await using stage = await openStage(boldAgent(`echo 42 > answer; rm given; ${GLUTTON}`));
	const end = await stage.play(asked);
	expect(end).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
	expect(end.notes.join()).toContain("what it was given is verified");
});

test("a box that was killed from outside is a failure, and worth another try", async () => {
	await using stage = await openStage(boldAgent("echo 42 > answer"));
	const end = await stage.play(asked);
	expect(end).toMatchObject({
		outcome: "failed",
		reward: null,
		failure: { code: "sandbox_lost", retryable: true },
	});
});

test("a box that broke before its agent had an answer is a failure", async () => {
	await using stage = await openStage(boldAgent(GLUTTON, { asks: false }));
	const end = await stage.play(asked);
	expect(end).toMatchObject({
		outcome: "failed",
		reward: null,
		failure: { code: "sandbox_lost", retryable: true },
	});
});

test("memory that belongs to no process, and outlives them all, voids nothing", async () => {
	const share =
		"while (defined(my $id = shmget(0, 25 << 20, 0600))) { shmwrite($id, 'x' x (25 << 20), 0, 25 << 20) }";
	await using stage = await openStage(
		boldAgent(`perl -e "${share.replaceAll("$", "\\$")}"; true`, { dies: false }),
	);
	// Whether its box survives that is for the kernel to choose.
	expect(await stage.play(asked)).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
});

/** Boxes of which the verifier's die after a command with `word` in it. */
async function openDoomedBackend(word: string): Promise<Backend> {
	const local = await openLocalBackend();
	return {
		name: local.name,
		available: () => local.available(),
		reap: () => local.reap(),
		open: async (options) => {
			const inner = await local.open(options);
			return options.role === "verifier" ? doomed(inner, (command) => command.includes(word)) : inner;
		},
		[Symbol.asyncDispose]: () => local[Symbol.asyncDispose](),
	};
}

test("a tested program that breaks the clean box fails the command that ran it, and the rest", async () => {
	await using stage = await openStage(scriptAgent("true"), () => openDoomedBackend("2 << 30"));
	const end = await stage.play(task({ verify: ["true", GLUTTON, "true", "true"], clocks, box }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0.25, failure: null });
	expect(end.summary?.verify.map(({ exitCode }) => exitCode)).toEqual([0, -1, -1, -1]);
});

test("a reward that had to be written, in a box that broke, is 0", async () => {
	await using stage = await openStage(scriptAgent("true"), () => openDoomedBackend("2 << 30"));
	const verify = [`${GLUTTON}; echo 1 > /home/user/logs/verifier/reward.txt`];
	const end = await stage.play(task({ verify, rewardFile: "required", clocks, box }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0, failure: null });
});

test("a clean box that was killed from outside is a failure, and worth another try", async () => {
	await using stage = await openStage(scriptAgent("true"), () => openDoomedBackend("kill me"));
	const end = await stage.play(task({ verify: ["true", "echo kill me"], clocks, box }));
	expect(end).toMatchObject({ outcome: "failed", reward: null, failure: { retryable: true } });
});
