import type { CallSummary } from "../../model/call.ts";
import type { CommandResult, Phase } from "../../model/event.ts";
import { showCall } from "./figures.ts";
import type { LogEvent } from "./log-event.ts";

/** One bar on the time axis; `endAt` is null while it goes on. */
export interface Span {
	key: string;
	lane: "phase" | "command" | "call" | "tool";
	label: string;
	kind: string;
	startAt: number;
	endAt: number | null;
	isBad: boolean;
	/** What the transcript calls it, if it is there. */
	entry?: string | undefined;
	/** Of a call, once it has ended: when its answer began. */
	firstByteAt?: number | undefined;
	/** Of a call. */
	call?: number | undefined;
}

/** A setup or verify command that has begun and not ended. */
export interface RunningCommand {
	kind: "setup" | "verify";
	step: number;
	of: number;
	cmd: string;
	startAt: number;
}

/** What the events tell about the rollout's course, of its last attempt. */
export interface Story {
	spans: Span[];
	startAt: number | null;
	endAt: number | null;
	phase: Phase;
	setup: CommandResult[];
	verify: CommandResult[];
	running: RunningCommand | null;
	reward: number | null;
	calls: number;
	failedAttempts: { attempt: number; message: string; code: string }[];
	notes: string[];
	sandbox: { id: string; backend: string; warm: boolean } | null;
	sessionId: string | null;
}

export function tellStory(events: readonly LogEvent[]): Story {
	const teller = new Teller();
	for (const event of events) teller.hear(event);
	return teller.story;
}

class Teller {
	story: Story = newStory();
	readonly #open = new Map<string, Span>();

	hear(event: LogEvent): void {
		const { story } = this;
		switch (event.type) {
			case "rollout-start":
				this.story = { ...newStory(), failedAttempts: story.failedAttempts, startAt: event.at };
				this.#open.clear();
				return;
			case "phase-start":
				this.#endPhase(event.at);
				story.phase = event.phase;
				this.#begin(
					{ key: `phase-${event.phase}`, lane: "phase", label: event.phase, kind: event.phase },
					event.at,
				);
				return;
			case "sandbox-open":
				story.sandbox = { id: event.sandboxId, backend: event.backend, warm: event.warm };
				return;
			case "session-start":
				story.sessionId ??= event.sessionId;
				return;
			case "setup-start":
			case "verify-start":
				this.#commandStart(event.type === "setup-start" ? "setup" : "verify", event);
				return;
			case "setup-end":
			case "verify-end":
				this.#commandEnd(event.type === "setup-end" ? "setup" : "verify", event.result, event.at);
				return;
			case "call-start":
				this.#begin(
					{
						...{ key: `call-${event.index}`, lane: "call", label: `call ${showCall(event.index)}` },
						...{ kind: event.purpose, call: event.index },
					},
					event.at,
				);
				return;
			case "call-end":
				story.calls += 1;
				this.#callEnd(event.call, event.at);
				return;
			case "agent-event":
				this.#tool(event.properties, event.at);
				return;
			case "reward":
				story.reward = event.reward;
				return;
			case "note":
				story.notes.push(event.text);
				return;
			case "attempt-failed":
				story.failedAttempts.push({
					attempt: event.attempt,
					code: event.failure.code,
					message: event.failure.message,
				});
				return;
			case "rollout-end":
				story.phase = "done";
				story.running = null;
				story.endAt = event.at;
				for (const key of [...this.#open.keys()]) this.#end(key, event.at, false);
		}
	}

	#begin(span: Omit<Span, "startAt" | "endAt" | "isBad">, at: number): void {
		const whole = { ...span, startAt: at, endAt: null, isBad: false };
		this.#open.set(span.key, whole);
		this.story.spans.push(whole);
	}

	#end(key: string, at: number, isBad: boolean): void {
		const span = this.#open.get(key);
		if (span === undefined) return;
		span.endAt = at;
		span.isBad = isBad;
		this.#open.delete(key);
	}

	#endPhase(at: number): void {
		for (const [key, span] of [...this.#open]) if (span.lane === "phase") this.#end(key, at, false);
	}

	#callEnd({ index, error, firstByteMs }: CallSummary, at: number): void {
		const span = this.#open.get(`call-${index}`);
		if (span !== undefined && typeof firstByteMs === "number") span.firstByteAt = span.startAt + firstByteMs;
		this.#end(`call-${index}`, at, error !== null);
	}

	#commandStart(
		kind: RunningCommand["kind"],
		{ step, of, cmd, at }: Omit<RunningCommand, "kind" | "startAt"> & { at: number },
	): void {
		this.story.running = { kind, step, of, cmd, startAt: at };
		this.#begin({ key: `${kind}-${step}`, lane: "command", label: cmd, kind }, at);
	}

	#commandEnd(kind: RunningCommand["kind"], result: CommandResult, at: number): void {
		const results = this.story[kind];
		results.push(result);
		this.story.running = null;
		this.#end(`${kind}-${results.length}`, at, result.exitCode !== 0);
	}

	#tool(properties: Record<string, unknown>, at: number): void {
		const part = properties.part as
			| { type?: string; tool?: string; callID?: string; state?: ToolState }
			| undefined;
		if (part?.type !== "tool" || part.callID === undefined) return;
		const key = `tool-${part.callID}`;
		const { status, time } = part.state ?? {};
		if (status === "running" && !this.#open.has(key) && !this.story.spans.some((span) => span.key === key))
			this.#begin(
				{ key, lane: "tool", label: part.tool ?? "tool", kind: part.tool ?? "tool", entry: part.callID },
				time?.start ?? at,
			);
		if (status === "completed" || status === "error") this.#end(key, time?.end ?? at, status === "error");
	}
}

interface ToolState {
	status?: string;
	time?: { start?: number; end?: number };
}

function newStory(): Story {
	return {
		spans: [],
		startAt: null,
		endAt: null,
		phase: "queued",
		setup: [],
		verify: [],
		running: null,
		reward: null,
		calls: 0,
		failedAttempts: [],
		notes: [],
		sandbox: null,
		sessionId: null,
	};
}
