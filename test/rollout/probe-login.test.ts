import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { holdCredential } from "../../src/credential/hold.ts";
import { AUTH_FILE } from "../../src/credential/login.ts";
import type { ProbeEnd } from "../../src/credential/verify.ts";
import { probeLogin } from "../../src/rollout/login/probe-login.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Backend, Sandbox } from "../../src/sandbox/sandbox.ts";
import { authAfter, openPlantedStage, type PlantedStage } from "../credential/planted/stage.ts";
import { changed } from "./fixture.ts";

let backend: Backend;
let stage: PlantedStage;
beforeAll(async () => {
	backend = await openLocalBackend();
});
afterAll(() => backend[Symbol.asyncDispose]());
beforeEach(async () => {
	stage = await openPlantedStage();
});
afterEach(() => stage[Symbol.asyncDispose]());

const ROTATE = `cat > ~/${AUTH_FILE} <<'E'\n${authAfter(1)}\nE\n`;
const ANSWER = `case "$(cat)" in *France*) c=Paris;; *Japan*) c=Tokyo;; *Egypt*) c=Cairo;; *Peru*) c=Lima;; esac
echo "{\\"type\\":\\"text\\",\\"part\\":{\\"text\\":\\"It is $c.\\"}}"`;
const REPEAT = `printf '{"type":"text","part":{"text":"%s"}}\\n' "$(cat)"`;
const error = (statusCode: number | null, message = "no") =>
	`echo '${JSON.stringify({ type: "error", error: { name: "APIError", data: { message, statusCode } } })}'`;

/** Asks with an agent that is a shell script. */
async function probe(
	script: string,
	options: { signal?: AbortSignal; beside?: (box: Sandbox) => Promise<void> } = {},
) {
	const { signal = new AbortController().signal, beside = async () => {} } = options;
	const { credentials } = stage.store;
	const said: string[] = [];
	let last: Sandbox | null = null;
	let watching = Promise.resolve();
	const open: Backend["open"] = async (options) => {
		const box = await backend.open(options);
		last = box;
		const path = `${box.home}/agent`;
		await box.writeFile(path, `#!/bin/bash\n${script}\n`, { executable: true });
		watching = beside(box);
		return changed(box, { agentBinary: path });
	};
	const deps = {
		credentials,
		backend: async () => changed(backend, { open }),
		warn: (text: string) => void said.push(text),
	};
	await using held = await holdCredential(credentials, "ada", "verify", { evenDead: true });
	const end = await probeLogin(deps, held, signal);
	await watching;
	await last!.closed;
	return { end, said };
}

test.for<[string, string, Partial<ProbeEnd>]>([
	["the right answer, whatever its exit code", `${ANSWER}\nexit 1`, { type: "answered" }],
	["an answer among the noise of a plugin", `echo noise; ${ANSWER}`, { type: "answered" }],
	["a model that repeats the question", REPEAT, { type: "unclear" }],
	["the answer, but not said by a model", `echo Paris Tokyo Cairo Lima`, { type: "unclear" }],
	["success without a word", "exit 0", { type: "unclear" }],
	["a 401", error(401), { type: "refused", status: 401 }],
	["a 403", error(403), { type: "refused", status: 403 }],
	["a 429", error(429), { type: "limited" }],
	["a 402", error(402), { type: "limited" }],
	["a 500", error(500), { type: "unclear" }],
	["a network that is away", error(null, "Unable to connect"), { type: "unclear" }],
	["a plugin that was refused", error(null, "Token refresh failed: 400"), { type: "refused", status: 403 }],
])("%s is judged for what it proves", async ([, script, expected]) => {
	const { end, said } = await probe(script);
	expect(end).toMatchObject(expected);
	expect(said).toEqual([]);
});

test("what was refreshed is stored, also when the question was not answered, and no reason holds a token", async () => {
	const { end } = await probe(`${ROTATE}${error(401, "no such token: refresh-token-1 access-token-0")}`);
	expect(end).toMatchObject({ type: "refused", message: expect.stringContaining("[hidden]") });
	expect(JSON.stringify(end)).not.toMatch(/(refresh|access)-token/);
	expect(await stage.storedRotation()).toBe(1);
});

test("when the time is up, what was refreshed is stored, and the box is gone with all that ran in it", async () => {
	const stop = new AbortController();
	const { end } = await probe(`${ROTATE}touch ~/rotated; setsid sleep 3000 & sleep 3000`, {
		signal: stop.signal,
		// The time is up just when it has new tokens.
		beside: async (box) => {
			await vi.waitFor(async () => expect(await box.exists(`${box.home}/rotated`)).toBe(true), 20_000);
			stop.abort();
		},
	});
	expect(end).toEqual({ type: "unclear", message: "it was not answered in time" });
	expect(await stage.storedRotation()).toBe(1);
});

test("nothing of this machine's surroundings is there to answer for a dead login", async () => {
	const names = [
		"OPENAI_API_KEY",
		"ANTHROPIC_AUTH_TOKEN",
		"OPENCODE_AUTH_CONTENT",
		"OPENCODE_CONFIG",
		"GH_TOKEN",
	];
	for (const name of names) process.env[name] = "sk-living-0001";
	try {
		const words = `if grep -qE '^(${names.join("|")})=' <(env); then echo seen; else ${ANSWER}\nfi`;
		expect((await probe(words)).end).toEqual({ type: "answered" });
	} finally {
		for (const name of names) delete process.env[name];
	}
});
