import type { Rollout } from "../../model/rollout.ts";
import type { Sandbox } from "../../sandbox/sandbox.ts";
import { verifyCommands } from "../../verify/verifier.ts";
import type { Verdict } from "../../verify/verify.ts";
import type { ReadyBox } from "../boxes/ready-box.ts";
import { inTime } from "../clock.ts";
import type { Deps } from "../deps.ts";
import type { RolloutRecord } from "../record.ts";
import { fill, hasClosed, openCleanBox, tooSlow } from "./clean-box.ts";

/** Gets the verdict, in a clean box: what the agent was given, plus its workdir and declared artifacts, and nothing else of it. */
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
		const say = (text: string) => this.#record.note(text);
		const diff = await fill(request.task, this.#ready.box, clean, this.#signal, say);
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
			onStart: (start) => record.emit({ type: "verify-start", ...start }),
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
