import { within } from "../errors.ts";
import type { Rollout } from "../model/rollout.ts";
import { HOME, type Task, WORKDIR } from "../model/task.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { Deps } from "./deps.ts";
import type { ReadyBox } from "./ready-box.ts";
import type { RolloutRecord } from "./record.ts";
import { transfer } from "./snapshot.ts";

const MAX_DIFF_BYTES = 1024 * 1024;

/** The verdict of a clean box: what the agent was given, plus its workdir and declared artifacts, and nothing else of it. */
export async function judge(
	rollout: Rollout,
	ready: ReadyBox,
	deps: Deps,
	record: RolloutRecord,
	signal: AbortSignal,
): Promise<void> {
	const { task } = rollout.request;
	await using clean = await openCleanBox(rollout, ready, deps, signal);
	await deps.store.putBlob(
		rollout.id,
		"diff.patch",
		Buffer.from(await fillAndDiff(task, ready, clean, signal)),
	);
	const verdict = await deps.verify(task, clean, {
		signal,
		onResult: (result) => {
			record.verify.push(result);
			record.emit({ type: "verify-end", result });
		},
	});
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
	return await within(
		"verifier",
		"clean_box_failed",
		async () => {
			const clean = await (await deps.provider(request.sandbox)).open({
				spec: request.task.box,
				role: "verifier",
				onGateway: (connection) => connection.destroy(),
				signal: AbortSignal.any([signal, AbortSignal.timeout(request.task.clocks.createS * 1000)]),
			});
			try {
				await clean.unpack(ready.given.stream());
				return clean;
			} catch (error) {
				await clean[Symbol.asyncDispose]();
				throw error;
			}
		},
		{ retryable: true },
	);
}

/** Lays the agent's workdir over the given one, and says how the two differ before any test can touch them. */
async function fillAndDiff(
	task: Task,
	ready: ReadyBox,
	clean: Sandbox,
	signal: AbortSignal,
): Promise<string> {
	const workdir = WORKDIR.replace(HOME, clean.home);
	const before = `/tmp/before-${clean.id}`;
	await clean.exec(`mkdir -p ${before} && mv ${workdir} ${before}/a`, { signal });
	const paths = await presentPaths(
		ready.box,
		["workdir", ...task.artifacts.map((path) => path.replace(`${HOME}/`, ""))],
		signal,
	);
	if (paths.length > 0) await transfer(ready.box, clean, paths);
	const script = `mkdir -p ${workdir} && ln -s ${workdir} ${before}/b && cd ${before} && diff -ruN -x .git -x node_modules a b; rm -rf ${before}`;
	const { stdout } = await clean.exec(script, { signal, timeoutMs: 30_000, maxOutputBytes: MAX_DIFF_BYTES });
	return stdout;
}

/** A workdir the agent removed, or swapped for a link, is an empty one. */
async function presentPaths(box: Sandbox, paths: readonly string[], signal: AbortSignal): Promise<string[]> {
	const script =
		'cd "$0" && for p in "$@"; do [ -e "$p" ] && [ ! -L "$p" ] && printf "%s\\0" "$p"; done; true';
	const { stdout } = await box.exec(["bash", "-c", script, box.home, ...paths], { signal });
	return stdout.split("\0").filter((path) => path !== "");
}
