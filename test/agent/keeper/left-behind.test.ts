import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { ServeKeeper } from "../../../src/agent/keeper/keeper.ts";
import { writeFakeServe } from "../../fakes/opencode-serve.ts";

const PROGRAM = join(import.meta.dirname, "keeper-program.ts");
const PASSWORD = "canary-password-0123456789";
const ROUNDS = Number(process.env.PADDOCK_KEEPER_KILLS ?? 8);

test(`a keeper is killed or told to end at ${ROUNDS} moments of its start: the next stop leaves no server of its`, {
	timeout: 30_000 + ROUNDS * 10_000,
}, async () => {
	const folder = await mkdtemp(join(tmpdir(), "paddock-left-"));
	await chmod(folder, 0o700);
	await using _folder = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
	const binary = await writeFakeServe(folder);
	for (let round = 0; round < ROUNDS; round += 1) {
		const home = join(folder, `home-${round}`);
		const keeper = spawn(process.execPath, [PROGRAM, home, binary, PASSWORD], {
			stdio: ["ignore", "pipe", "inherit"],
		});
		const gone = once(keeper, "exit");
		await once(keeper.stdout, "data");
		// A start takes some 300 ms on an idle machine; each round stops it elsewhere.
		await delay((400 * round) / ROUNDS);
		keeper.kill(round % 2 === 0 ? "SIGKILL" : "SIGTERM");
		await gone;
		const provider = { baseUrl: "", apiKey: "not-used-0123456789", models: ["one"] };
		await new ServeKeeper({ home, binary, password: PASSWORD, provider }).stop();
		await expect.poll(() => processesOf(folder), { timeout: 5_000 }).toEqual([]);
	}
});

/** Those whose command names the folder. */
async function processesOf(folder: string): Promise<string[]> {
	const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
	const commands = await Promise.all(
		pids.map(async (pid) => `${pid} ${await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")}`),
	);
	return commands
		.filter((command) => command.includes(folder))
		.map((command) => command.replaceAll("\0", " "));
}
