import { RolloutError, within } from "../errors.ts";
import type { Rollout } from "../model/rollout.ts";
import { HOME, type Task, WORKDIR } from "../model/task.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { verifyCommands } from "../verify/clean-box.ts";
import { closing, inTime } from "./clock.ts";
import type { Deps } from "./deps.ts";
import { openBox, type ReadyBox } from "./ready-box.ts";
import type { RolloutRecord } from "./record.ts";
import { transfer } from "./snapshot.ts";

const MAX_DIFF_BYTES = 1024 * 1024;
const DIFF_S = 30;

/** The verdict of a clean box: what the agent was given, plus its workdir and declared artifacts, and nothing else of it. */
export async function judge(
	rollout: Rollout,
	ready: ReadyBox,
	deps: Deps,
	record: RolloutRecord,
	signal: AbortSignal,
): Promise<void> {
	const { task } = rollout.request;
	const { createS, verifyS, teardownS } = task.clocks;
	const clean = await openCleanBox(rollout, ready, deps, signal);
	await using _closing = closing(clean, "the clean box", teardownS, (text) => record.note(text));
	const filling = fillAndDiff(task, ready, clean, signal);
	const diff = await inTime(filling, {
		ms: (createS + DIFF_S) * 1000,
		late: () => tooSlow("filling"),
		signal,
	});
	await deps.store.putBlob(rollout.id, "diff.patch", Buffer.from(diff));
	const verifying = deps.verify(task, clean, {
		signal,
		onResult: (result) => {
			record.verify.push(result);
			record.emit({ type: "verify-end", result });
		},
	});
	// Each command has its own clock; one more is for what happens around them.
	const verifyMs = (verifyCommands(task).length + 1) * verifyS * 1000;
	const verdict = await inTime(verifying, { ms: verifyMs, late: () => tooSlow("verifying in"), signal });
	record.reward = verdict.reward;
	record.emit({ type: "reward", reward: verdict.reward });
	await deps.store.putBlob(rollout.id, "verifier.stdout", Buffer.from(verdict.stdout));
	await deps.store.putBlob(rollout.id, "verifier.stderr", Buffer.from(verdict.stderr));
}

async function openCleanBox(
	rollout: Rollout,
	ready: ReadyBox,
	deps: Deps,
	signal: AbortSignal,
): Promise<Sandbox> {
	const { request } = rollout;
	const ms = request.task.clocks.createS * 1000;
	return await within(
		"verifier",
		"clean_box_failed",
		async () => {
			const clean = await openBox({ provider: deps.provider }, request, signal);
			const given = ready.given.stream();
			try {
				await inTime(clean.unpack(given), { ms, late: () => tooSlow("unpacking into"), signal });
				return clean;
			} catch (error) {
				given.destroy();
				await clean[Symbol.asyncDispose]();
				throw error;
			}
		},
		{ retryable: true },
	);
}

function tooSlow(doing: string): RolloutError {
	return new RolloutError("verifier", "clean_box_failed", `${doing} the clean box took too long`, {
		retryable: true,
	});
}

/** Lays the agent's workdir over the given one, and says how the two differ before any test can touch them. */
async function fillAndDiff(
	task: Task,
	ready: ReadyBox,
	clean: Sandbox,
	signal: AbortSignal,
): Promise<string> {
	const workdir = WORKDIR.replace(HOME, clean.home);
	// On the same disk: to set the given workdir aside is one step then, whatever its size.
	const before = `${clean.home}/.before-${clean.id}`;
	const setAside = `mkdir -p ${before} ${workdir} && chmod u+rwx ${workdir} && mv ${workdir} ${before}/a`;
	const aside = await clean.exec(setAside, { signal });
	// Laid over what was given, a file that the agent removed would be back.
	if (aside.exitCode !== 0)
		throw new RolloutError("verifier", "clean_box_failed", aside.stderr.slice(-500), { retryable: true });
	const paths = await presentPaths(ready.box, ["workdir", ...task.artifacts.map(belowHome)], signal);
	if (paths.length > 0) await transfer(ready.box, clean, paths);
	const script = `mkdir -p ${workdir} && ln -s ${workdir} ${before}/b && cd ${before} && diff -ruN -x .git -x node_modules a b`;
	const { stdout } = await clean.exec(script, {
		signal,
		timeoutMs: DIFF_S * 1000,
		maxOutputBytes: MAX_DIFF_BYTES,
	});
	await clean.exec(`chmod -R u+rwX ${before}/a; rm -rf ${before}`, { signal });
	return stdout;
}

function belowHome(artifact: string): string {
	const path = artifact.startsWith(`${HOME}/`) ? artifact.slice(HOME.length + 1) : "";
	if (path === "" || path.split("/").includes(".."))
		throw new RolloutError("task", "bad_path", `${artifact}: artifacts lie below ${HOME} only`);
	return path;
}

/**
 * A workdir the agent removed, or swapped for a link, is an empty one. What it made unreadable for itself is made readable, or no
 * archive of it could be made. The answer comes out of the agent's box: it may leave paths out, not name others.
 */
async function presentPaths(box: Sandbox, paths: readonly string[], signal: AbortSignal): Promise<string[]> {
	const script =
		'cd "$0" && for p in "$@"; do [ -e "./$p" ] && [ ! -L "./$p" ] && printf "%s\\0" "$p" && chmod -R u+rX "./$p" 2>/dev/null; done; true';
	const { stdout } = await box.exec(["bash", "-c", script, box.home, ...paths], { signal });
	const present = new Set(stdout.split("\0"));
	return paths.filter((path) => present.has(path));
}
