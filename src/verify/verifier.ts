import { RolloutError, within } from "../errors.ts";
import { type CommandResult, toStart } from "../model/event.ts";
import { HOME, type Task, type TaskFile, TESTS_DIR, VERIFIER_LOG_DIR, WORKDIR } from "../model/task.ts";
import { withoutTrust } from "../model/untrusted.ts";
import { type BoxFile, type ExecOptions, pathIn, type Sandbox } from "../sandbox/sandbox.ts";
import { runCommand } from "./commands.ts";
import { findMissing } from "./could-not-run.ts";
import { type RewardFiles, toReward } from "./reward.ts";
import type { Verify } from "./verify.ts";

const MAX_REWARD_BYTES = 64 * 1024;

/** Stages the hidden tests only now, gives the verifier an empty reward folder, runs its commands, reads the reward. */
export const verify: Verify = async (task, clean, { signal, onStart, onResult }) =>
	await within("verifier", "verifier_failed", async () => {
		const at = (path: string) => pathIn(clean, path);
		await makeRoom(clean, at(TESTS_DIR), at(VERIFIER_LOG_DIR), at(WORKDIR), signal);
		await stageFiles(clean, task.tests, at(TESTS_DIR));
		const results: CommandResult[] = [];
		const commands = verifyCommands(task);
		for (const [index, command] of commands.entries()) {
			onStart?.(toStart(command, index, commands.length));
			const options = { cwd: at(WORKDIR), timeoutMs: task.clocks.verifyS * 1000, signal };
			const result = await runAlone(clean, command, options);
			results.push(result);
			onResult(result);
		}
		const reward = (await clean.hasBrokenItself())
			? toReward(NO_REWARD_FILES, results)
			: await findReward(task, clean, results, signal);
		return {
			reward,
			results,
			stdout: results.map((result) => result.stdout).join(""),
			stderr: results.map((result) => result.stderr).join(""),
		};
	});

/**
 * What a command started ends with it: nothing of the agent's program waits for the next one, or has the last word. One in which that
 * program broke the box has failed, and so have those after it.
 */
async function runAlone(clean: Sandbox, command: string, options: ExecOptions): Promise<CommandResult> {
	try {
		const ran = await runCommand(clean, withoutTrust(command), options);
		await clean.killAll();
		return { ...ran, cmd: command };
	} catch (error) {
		if (!(await clean.hasBrokenItself())) throw error;
		const stderr = "[what was tested broke the box that it was tested in]";
		return { cmd: command, exitCode: -1, stdout: "", stderr, durationS: 0 };
	}
}

async function findReward(
	task: Task,
	clean: Sandbox,
	results: readonly CommandResult[],
	signal: AbortSignal,
): Promise<number | null> {
	const logs = pathIn(clean, VERIFIER_LOG_DIR);
	const files = writesReward(task) ? await readRewards(clean, logs) : NO_REWARD_FILES;
	const reward = toReward(files, task.rewardFile === "required" ? [] : results);
	await requireRun(task, clean, reward, results, signal);
	return reward;
}

/** No reward is made of a test that could not start: neither the agent nor the model can help it. */
async function requireRun(
	task: Task,
	clean: Sandbox,
	reward: number | null,
	results: readonly CommandResult[],
	signal: AbortSignal,
): Promise<void> {
	// A script that wrote a reward of 0 itself may have hidden that its tests never started.
	const failed = results.filter((result) => result.exitCode !== 0 || reward === 0);
	const missing = reward === 1 ? null : await findMissing(task, clean, failed, signal);
	if (missing === null) return;
	const message = `the verify command "${missing.result.cmd.slice(0, 200)}" could not run: ${missing.what}`;
	throw new RolloutError("task", "verifier_could_not_run", message);
}

/** An artifact of the agent's may lie there, write-protected: a reward it brought along must not stay. */
async function makeRoom(
	clean: Sandbox,
	tests: string,
	logs: string,
	workdir: string,
	signal: AbortSignal,
): Promise<void> {
	const script =
		'chmod u+rwx "$HOME" "$1/.." "$2/.."; chmod -R u+rwX "$1" "$2"; rm -rf "$1" "$2" && mkdir -p "$1" "$2" "$3"';
	const argv = ["bash", "-c", `{ ${script}; } 2>&1`, "bash", tests, logs, workdir];
	const { exitCode, stdout } = await clean.exec(argv, { signal });
	if (exitCode === 0) return;
	const message = `the verifier's folders could not be made: ${stdout.trim().slice(-500)}`;
	throw new RolloutError("verifier", "verifier_failed", message);
}

const NO_REWARD_FILES: RewardFiles = { json: null, txt: null };

/**
 * The verifier may have to run what the agent wrote, under the same user. Where nothing in the task ever names a reward file, only
 * the agent's program can have written one: it is not even looked at.
 */
function writesReward(task: Task): boolean {
	const staged = [...task.tests, ...task.files].map((file) =>
		Buffer.from(file.content, file.encoding).toString("latin1"),
	);
	return [...task.verify, ...task.setup, ...staged].some((text) => /reward\.(json|txt)/.test(text));
}

async function readRewards(clean: Sandbox, folder: string): Promise<RewardFiles> {
	return {
		json: await readSmall(clean, `${folder}/reward.json`),
		txt: await readSmall(clean, `${folder}/reward.txt`),
	};
}

/** A task may leave out `verify` when it brings a test script. */
export function verifyCommands(task: Task): string[] {
	if (task.verify.length > 0) return task.verify;
	return task.tests.some((file) => file.path === "test.sh") ? [`bash ${TESTS_DIR}/test.sh`] : [];
}

/** Relative paths land in `folder`, absolute ones below home. */
export async function stageFiles(box: Sandbox, files: readonly TaskFile[], folder: string): Promise<void> {
	const placed = files.map((file) => ({ file, path: placeOf(file, box, folder) }));
	await box.writeFiles(decoded(placed));
}

function placeOf(file: TaskFile, box: Sandbox, folder: string): string {
	const path = file.path.startsWith("/") ? pathIn(box, file.path) : `${folder}/${file.path}`;
	if (path.startsWith(`${box.home}/`) && !path.split("/").includes("..")) return path;
	throw new RolloutError("task", "bad_path", `${file.path}: files are staged below ${HOME} only`);
}

/** One at a time: the contents of a large task need not be in memory twice. */
function* decoded(placed: { file: TaskFile; path: string }[]): Generator<BoxFile> {
	for (const { file, path } of placed)
		yield { path, data: Buffer.from(file.content, file.encoding), executable: file.executable };
}

/** What is there and cannot be read is a reward that cannot be believed. */
async function readSmall(box: Sandbox, path: string): Promise<string | null> {
	if (!(await box.exists(path))) return null;
	try {
		return (await box.readFile(path, { maxBytes: MAX_REWARD_BYTES })).toString("utf8");
	} catch (error) {
		if (!(error instanceof RolloutError) || error.retryable) throw error;
		throw new RolloutError("verifier", "bad_reward", `${path}: ${error.message}`, { cause: error });
	}
}
