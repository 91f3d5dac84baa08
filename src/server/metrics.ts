import type { Phase, RolloutEvent } from "../model/event.ts";
import { kindOf } from "../model/id.ts";
import type { Paddock } from "../paddock.ts";
import { Counter, gauge, Histogram } from "./prometheus.ts";

/** What this process saw happen, in Prometheus' text format. Sum over processes for the whole installation. */
export class Metrics {
	readonly #ended = new Counter("paddock_rollouts_ended_total", "Rollouts that ended, by outcome");
	readonly #failed = new Counter(
		"paddock_attempts_failed_total",
		"Attempts that failed, by boundary and code",
	);
	readonly #tokens = new Counter("paddock_tokens_total", "Tokens of captured calls, by kind");
	readonly #callErrors = new Counter("paddock_call_errors_total", "Model calls that failed, by code");
	readonly #requests = new Counter("paddock_http_requests_total", "HTTP requests, by method and status");
	readonly #leaked = new Counter(
		"paddock_leaked_boxes_total",
		"Boxes whose process had died, destroyed by this one",
	);
	readonly #phases = new Histogram("paddock_phase_seconds", "Time spent in each phase of a rollout");
	readonly #calls = new Histogram("paddock_call_seconds", "Latency of model calls through the gateway");
	readonly #current = new Map<string, { phase: Phase; since: number }>();

	constructor() {
		for (const outcome of ["completed", "timeout", "aborted", "budget", "failed"])
			this.#ended.add({ outcome }, 0);
		for (const kind of ["prompt", "completion"]) this.#tokens.add({ kind }, 0);
		this.#leaked.add({}, 0);
	}

	/** Takes what the store announces: each event once, whoever caused it. */
	onEvent(event: RolloutEvent): void {
		const { rolloutId, at } = event;
		if (event.type === "phase-start" && kindOf(rolloutId) === "rollout")
			this.#enter(rolloutId, event.phase, at);
		if (event.type === "call-end") {
			const { call } = event;
			this.#tokens.add({ kind: "prompt" }, call.promptTokens);
			this.#tokens.add({ kind: "completion" }, call.completionTokens);
			this.#calls.observe({ purpose: call.purpose }, call.latencyMs / 1000);
			if (call.error) this.#callErrors.add({ code: call.error.code });
		}
		if (event.type === "attempt-failed") {
			this.#enter(rolloutId, null, at);
			this.#failed.add({ boundary: event.failure.boundary, code: event.failure.code });
		}
		if (event.type === "rollout-end") {
			this.#enter(rolloutId, null, at);
			this.#ended.add({ outcome: event.outcome });
		}
		if ((event.type === "rollout-end" || event.type === "conversation-end") && event.failure)
			this.#failed.add({ boundary: event.failure.boundary, code: event.failure.code });
	}

	onRequest(method: string, status: number): void {
		this.#requests.add({ method: KNOWN_METHODS.has(method) ? method : "OTHER", status: String(status) });
	}

	onLeakedBoxes(count: number): void {
		this.#leaked.add({}, count);
	}

	async render(paddock: Paddock): Promise<string> {
		const [{ rollouts, conversations, queueDepth }, workers] = await Promise.all([
			paddock.status(),
			paddock.workers(),
		]);
		const sum = (pick: (worker: (typeof workers)[number]) => number) =>
			workers.reduce((total, worker) => total + pick(worker), 0);
		const rows = [
			gauge("paddock_rollouts", "Stored rollouts, by status", [
				[{ status: "queued" }, rollouts.queued],
				[{ status: "running" }, rollouts.running],
				[{ status: "done" }, rollouts.done],
			]),
			gauge("paddock_conversations", "Stored conversations, by status", [
				[{ status: "queued" }, conversations.queued],
				[{ status: "open" }, conversations.open],
				[{ status: "closed" }, conversations.closed],
			]),
			gauge("paddock_queue_depth", "Rollouts waiting for a worker", [[{}, queueDepth]]),
			gauge("paddock_workers", "Workers that announced themselves", [[{}, workers.length]]),
			gauge("paddock_worker_capacity", "Rollouts all workers can run at once", [
				[{}, sum((w) => w.capacity)],
			]),
			gauge("paddock_worker_conversation_capacity", "Conversations all workers can keep open at once", [
				[{}, sum((w) => w.maxConversations)],
			]),
			gauge("paddock_worker_conversations", "Conversations all workers have open", [
				[{}, sum((w) => w.conversations)],
			]),
			gauge("paddock_worker_running", "Rollouts all workers run now", [[{}, sum((w) => w.running)]]),
			gauge("process_resident_memory_bytes", "Memory of this process", [[{}, process.memoryUsage.rss()]]),
			...[this.#ended, this.#failed, this.#tokens, this.#callErrors, this.#requests, this.#leaked].map(
				(counter) => counter.render(),
			),
			this.#phases.render(),
			this.#calls.render(),
		];
		return `${rows.join("\n")}\n`;
	}

	#enter(rolloutId: string, phase: Phase | null, at: number): void {
		const before = this.#current.get(rolloutId);
		if (before) this.#phases.observe({ phase: before.phase }, Math.max(0, at - before.since) / 1000);
		if (phase === null || phase === "done") this.#current.delete(rolloutId);
		else this.#current.set(rolloutId, { phase, since: at });
	}
}

const KNOWN_METHODS = new Set(["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"]);
