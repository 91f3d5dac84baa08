import { setImmediate } from "node:timers/promises";
import { RolloutError, within } from "../errors.ts";
import type { RolloutRequest } from "../model/request.ts";
import type { Rollout } from "../model/rollout.ts";
import { HOME, type Task, WORKDIR } from "../model/task.ts";
import { pathIn, type Sandbox } from "../sandbox/sandbox.ts";
import { verifyCommands } from "../verify/clean-box.ts";
import type { Verdict } from "../verify/verify.ts";
import { inTime } from "./clock.ts";
import type { Deps } from "./deps.ts";
import { openBox, type ReadyBox } from "./ready-box.ts";
import type { RolloutRecord } from "./record.ts";
import { transfer } from "./snapshot.ts";

const MAX_DIFF_BYTES = 1024 * 1024;
const DIFF_S = 30;

/** Gives the verdict in a clean box: what the agent was given, plus its workdir and declared artifacts, and nothing else of it. */
export class Judge implements AsyncDisposable {
	readonly #rollout: Rollout;
	readonly #ready: ReadyBox;
	readonly #deps: Deps;
	readonly #record: RolloutRecord;
	readonly #signal: AbortSignal;
	#clean: Promise<Sandbox> | null = null;

	constructor(rollout: Rollout, ready: ReadyBox, deps: Deps, record: RolloutRecord, signal: AbortSignal) {
		this.#rollout = rollout;
		this.#ready = ready;
		this.#deps = deps;
		this.#record = record;
		this.#signal = signal;
	}

	/** Opens the clean box in the background: a verdict will be wanted soon. Harmless to repeat. */
	prepare(): void {
		if (this.#clean !== null) return;
		this.#clean = openCleanBox(this.#rollout.request, this.#ready, this.#deps, this.#signal);
		// Whoever needs it learns why there is none.
		this.#clean.catch(() => {});
	}

	async judge(): Promise<void> {
		const clean = await this.#cleanBox();
		const { id, attempt, request } = this.#rollout;
		const { createS } = request.task.clocks;
		const filling = fillAndDiff(request.task, this.#ready, clean, this.#signal);
		const late = () => tooSlow("filling");
		const diff = await inTime(filling, { ms: (createS + DIFF_S) * 1000, late, signal: this.#signal });
		const { store } = this.#deps;
		await store.putBlob(id, attempt, "diff.patch", Buffer.from(diff));
		const verdict = await this.#verify(clean);
		this.#record.reward = verdict.reward;
		this.#record.emit({ type: "reward", reward: verdict.reward });
		await store.putBlob(id, attempt, "verifier.stdout", Buffer.from(verdict.stdout));
		await store.putBlob(id, attempt, "verifier.stderr", Buffer.from(verdict.stderr));
	}

	async [Symbol.asyncDispose](): Promise<void> {
		// What failed to open has been told already, or nobody needed it.
		const clean = await this.#clean?.catch(() => null);
		await clean?.[Symbol.asyncDispose]();
	}

	/** One that was opened early may have failed or died since: the agent's work is worth another. */
	async #cleanBox(): Promise<Sandbox> {
		const early = await this.#clean?.catch(() => null);
		if (early && !(await hasClosed(early))) return early;
		await early?.[Symbol.asyncDispose]();
		this.#clean = null;
		this.prepare();
		return await this.#clean!;
	}

	async #verify(clean: Sandbox): Promise<Verdict> {
		const { task } = this.#rollout.request;
		const [record, signal] = [this.#record, this.#signal];
		const verifying = this.#deps.verify(task, clean, {
			signal,
			onResult: (result) => {
				record.verify.push(result);
				record.emit({ type: "verify-end", result });
			},
		});
		// Each command has its own clock; one more is for what happens around them.
		const ms = (verifyCommands(task).length + 1) * task.clocks.verifyS * 1000;
		return await inTime(verifying, { ms, late: () => tooSlow("verifying in"), signal });
	}
}

async function hasClosed(box: Sandbox): Promise<boolean> {
	const closed = box.closed.then(
		() => true,
		() => true,
	);
	return await Promise.race([closed, setImmediate(false)]);
}

async function openCleanBox(
	request: RolloutRequest,
	ready: ReadyBox,
	deps: Deps,
	signal: AbortSignal,
): Promise<Sandbox> {
	const ms = request.task.clocks.createS * 1000;
	return await within(
		"verifier",
		"clean_box_failed",
		async () => {
			const clean = await openBox({ backend: deps.backend }, request, signal);
			const given = ready.given.stream();
			try {
				const filling = clean.unpack(given).then(() => setAside(clean, signal));
				await inTime(filling, { ms, late: () => tooSlow("unpacking into"), signal });
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

/** Laid over the given workdir, a file that the agent removed would be back. So that one makes room, and is compared with. */
async function setAside(clean: Sandbox, signal: AbortSignal): Promise<void> {
	const { before, workdir } = placesIn(clean);
	const script = `mkdir -p ${before} ${workdir} && chmod u+rwx ${workdir} && mv ${workdir} ${before}/a`;
	const { exitCode, stderr } = await clean.exec(script, { signal });
	if (exitCode !== 0)
		throw new RolloutError("verifier", "clean_box_failed", stderr.slice(-500), { retryable: true });
}

function placesIn(clean: Sandbox): { before: string; workdir: string } {
	// On the same disk: to set the given workdir aside is one step then, whatever its size.
	return { before: `${clean.home}/.before-${clean.id}`, workdir: pathIn(clean, WORKDIR) };
}

function tooSlow(doing: string): RolloutError {
	return new RolloutError("verifier", "clean_box_failed", `${doing} the clean box took too long`, {
		retryable: true,
	});
}

/** Brings the agent's workdir, and says how it differs from the given one before any test can touch them. */
async function fillAndDiff(
	task: Task,
	ready: ReadyBox,
	clean: Sandbox,
	signal: AbortSignal,
): Promise<string> {
	const { before, workdir } = placesIn(clean);
	const paths = await presentPaths(ready.box, ["workdir", ...task.artifacts.map(belowHome)], signal);
	if (paths.length > 0) await transfer(ready.box, clean, paths);
	// A link of the agent's may lead to something endless; b itself is followed because of its slash.
	const compare = "diff -ruN --no-dereference -x .git -x node_modules a/ b/";
	const tidy = `chmod -R u+rwX ${before}/a; rm -rf ${before}`;
	const script = `mkdir -p ${workdir} && ln -s ${workdir} ${before}/b && cd ${before} && ${compare}; ${tidy}`;
	const { stdout, timedOut } = await clean.exec(script, {
		signal,
		timeoutMs: DIFF_S * 1000,
		maxOutputBytes: MAX_DIFF_BYTES,
	});
	if (timedOut) await clean.exec(tidy, { signal });
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
