import { messageOf, RolloutError, toFailure } from "../errors.ts";
import type { CallSummary } from "../model/call.ts";
import type { CommandResult, EventBody, Phase, SetupEvent } from "../model/event.ts";
import type { Failure, Outcome } from "../model/failure.ts";
import { type Intervention, interventionOf } from "../model/intervention.ts";
import type { Rollout, TraceSummary } from "../model/rollout.ts";
import type { RolloutEnd, RolloutPatch, Store } from "../store/store.ts";
import { RolloutLogs } from "./logs.ts";

const MAX_INTERVENTIONS = 1_000;

/**
 * Everything that is said about one attempt while it runs. Events go to the store in order, many at a time; when the store
 * refuses them the attempt was taken over by another worker, and `lost` fires.
 */
export class RolloutRecord {
	readonly lost = new AbortController();
	readonly setup: CommandResult[] = [];
	readonly verify: CommandResult[] = [];
	readonly logs = new RolloutLogs();
	readonly timings: Record<string, number> = {};
	reward: number | null = null;
	outcome: Outcome | null = null;
	failure: Failure | null = null;
	sandboxId = "";
	sessionId: string | null = null;
	agentExitCode: number | null = null;
	files: TraceSummary["files"] = [];
	box: Record<string, unknown> = {};
	/** Why no sample may be made of it, whatever its tokens prove. */
	untrainable: string | null = null;
	#store: Store;
	#hide = (end: RolloutEnd): RolloutEnd => end;
	readonly #rollout: Rollout;
	readonly #agentVersion: string;
	readonly #stop: AbortSignal;
	readonly #startedAt = Date.now();
	readonly #interventions: Intervention[] = [];
	#callsBegun = 0;
	#sealed = false;
	#pending: EventBody[] = [];
	#patch: RolloutPatch = {};
	#flushing: Promise<void> = Promise.resolve();
	#phase: { name: Phase; since: number } | null = null;
	readonly #counts: { calls: number; promptTokens: number; completionTokens: number };

	/** `stop` fires when somebody outside wants the rollout to stop. */
	constructor(rollout: Rollout, store: Store, agentVersion: string, stop: AbortSignal) {
		this.#rollout = rollout;
		this.#stop = stop;
		this.#agentVersion = agentVersion;
		if (rollout.request.mode === "black_box") this.untrainable = "black_box mode captures no tokens";
		this.#store = store;
		// A conversation goes on counting where the worker before this one stopped; a new attempt of a rollout is at zero.
		const { calls, promptTokens, completionTokens } = rollout;
		this.#counts = { calls, promptTokens, completionTokens };
	}

	/** From now on what is told goes to `store`, and `hide` takes out of the end what nobody may read. */
	cover(store: Store, hide: (end: RolloutEnd) => RolloutEnd): void {
		this.#store = store;
		this.#hide = hide;
	}

	/**
	 * Once the end is told, nothing more is: what is left of abandoned work may still try. `patch` is what the event changes of
	 * the rollout's row.
	 */
	emit(event: EventBody, patch: RolloutPatch = {}): void {
		if (this.#sealed) return;
		Object.assign(this.#patch, patch);
		this.logs.note(event, Date.now());
		this.#noteIntervention(event);
		this.#pending.push(event);
		if (this.#pending.length === 1) this.#flushing = this.#flushing.then(() => this.#flush());
	}

	#noteIntervention(event: EventBody): void {
		if (event.type === "call-start") this.#callsBegun += 1;
		const intervention = interventionOf(event, this.#callsBegun);
		if (intervention !== null && this.#interventions.length < MAX_INTERVENTIONS)
			this.#interventions.push(intervention);
	}

	note(text: string): void {
		this.emit({ type: "note", text });
	}

	phase(name: Phase): void {
		this.#closePhase();
		this.#phase = { name, since: performance.now() };
		this.emit({ type: "phase-start", phase: name }, { phase: name });
	}

	opened(sandboxId: string, backend: string, warm: boolean, facts: Record<string, unknown>): void {
		this.sandboxId = sandboxId;
		this.box = { backend, warm, agentVersion: this.#agentVersion, ...facts };
		this.emit({ type: "sandbox-open", sandboxId, backend, warm }, { sandboxId });
	}

	setUp(event: SetupEvent): void {
		if (event.type === "setup-end") this.setup.push(event.result);
		this.emit(event);
	}

	session(sessionId: string): void {
		this.sessionId = sessionId;
		this.emit({ type: "session-start", sessionId }, { sessionId });
	}

	called(call: CallSummary): void {
		this.#counts.calls++;
		this.#counts.promptTokens += call.promptTokens;
		this.#counts.completionTokens += call.completionTokens;
		this.emit({ type: "call-end", call }, this.#counts);
	}

	/** How the agent ended. */
	ended(outcome: Outcome, failure: Failure | null): void {
		if (failure !== null) this.logs.failed(failure);
		this.outcome = outcome;
		this.failure = failure;
	}

	/** Something broke, before, during or after the agent's turn. What was asked for from outside is not a failure. */
	failed(error: unknown, signal: AbortSignal): void {
		if (this.outcome === "failed" || this.outcome === "aborted") return;
		if (signal.aborted && !(error instanceof RolloutError && error.boundary === "task"))
			this.ended("aborted", null);
		else this.ended("failed", toFailure(error));
	}

	/** What people read when something went wrong; worth keeping, not worth failing for. */
	async keepLogs(): Promise<void> {
		const { id, attempt } = this.#rollout;
		try {
			for (const [name, text] of this.logs.all())
				if (text !== "") await this.#store.putBlob(id, attempt, name, Buffer.from(text));
		} catch (error) {
			this.note(`the logs could not be kept: ${messageOf(error)}`);
		}
	}

	async seal(): Promise<RolloutEnd> {
		this.#closePhase();
		this.#sealed = true;
		await this.#flushing;
		this.#blameStore();
		const gaveReward = this.outcome !== "failed" && this.outcome !== "aborted";
		return this.#hide({
			outcome: this.outcome ?? "completed",
			reward: gaveReward ? this.reward : null,
			failure: this.failure,
			summary: {
				version: 1,
				sandboxId: this.sandboxId,
				sessionId: this.sessionId,
				setup: this.setup,
				verify: this.verify,
				agentExitCode: this.agentExitCode,
				wallS: (Date.now() - this.#startedAt) / 1000,
				timings: this.timings,
				files: this.files,
				box: this.box,
				untrainable: this.untrainable,
				interventions: this.#interventions,
			},
		});
	}

	/** Stopped because nothing could be written down any more: nobody asked for that. */
	#blameStore(): void {
		const { reason } = this.lost.signal;
		if (this.outcome === "aborted" && reason instanceof RolloutError && !this.#stop.aborted)
			this.ended("failed", toFailure(reason));
	}

	async #flush(): Promise<void> {
		const [events, patch] = [this.#pending, this.#patch];
		[this.#pending, this.#patch] = [[], {}];
		const { id, attempt } = this.#rollout;
		try {
			const stored = await this.#store.append(id, attempt, events, patch);
			if (stored.length === 0 && events.length > 0)
				this.lost.abort(new Error("another attempt took this rollout over"));
		} catch (error) {
			this.#lose(error);
		}
	}

	#lose(cause: unknown): void {
		const message = `events could not be stored: ${messageOf(cause)}`;
		this.lost.abort(new RolloutError("gateway", "store_failed", message, { retryable: true, cause }));
	}

	#closePhase(): void {
		if (this.#phase === null) return;
		const { name, since } = this.#phase;
		this.timings[name] = (this.timings[name] ?? 0) + (performance.now() - since) / 1000;
		this.#phase = null;
	}
}
