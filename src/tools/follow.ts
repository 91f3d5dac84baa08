import { isAbort } from "../errors.ts";
import { untilTimeout } from "../model/duration.ts";
import type { RolloutEvent } from "../model/event.ts";
import type { Paddock } from "../paddock.ts";
import type { Progress, ToolContext } from "./tools.ts";

/** Clients that extend their patience with each report wait 60 s by default. */
const HEARTBEAT_MS = 10_000;

/** Reports progress until the rollout has ended, the caller gave up or the time is over. */
export async function followToEnd(
	paddock: Paddock,
	id: string,
	context: ToolContext,
	timeoutMs?: number,
): Promise<void> {
	const signal = timeoutMs === undefined ? context.signal : untilTimeout(timeoutMs, context.signal);
	const report = new ProgressReport(context.onProgress);
	const heartbeat = setInterval(() => report.send(), HEARTBEAT_MS);
	try {
		for await (const event of paddock.follow(id, { after: 0, signal })) report.note(event);
	} catch (error) {
		if (!signal.aborted && !isAbort(error)) throw error;
	} finally {
		clearInterval(heartbeat);
	}
}

/** Counts what happened, and says it in one line. */
class ProgressReport {
	readonly #send: ((progress: Progress) => void) | undefined;
	#reports = 0;
	/** The phase, or the command that runs in it. */
	#now = "queued";
	#setups = 0;
	#calls = 0;
	#tokens = 0;
	#checks = 0;

	constructor(send: ((progress: Progress) => void) | undefined) {
		this.#send = send;
	}

	note(event: RolloutEvent): void {
		switch (event.type) {
			case "phase-start":
				this.#now = event.phase;
				break;
			case "setup-start":
			case "verify-start":
				this.#now = `${event.type.replace("-start", "")} ${event.step}/${event.of}: ${oneLine(event.cmd)}`;
				break;
			case "teardown-start":
				this.#now = "teardown";
				break;
			case "setup-end":
				this.#setups += 1;
				break;
			case "call-end":
				this.#calls += 1;
				this.#tokens += event.call.completionTokens;
				break;
			case "verify-end":
				this.#checks += 1;
				break;
			case "rollout-end":
				this.#now = event.outcome;
				break;
			case "rollout-queued":
			case "attempt-failed":
				break;
			default:
				return;
		}
		this.send();
	}

	send(): void {
		this.#reports += 1;
		const counts = [
			count(this.#setups, "setup command"),
			count(this.#calls, "model call"),
			count(this.#tokens, "token"),
			count(this.#checks, "verify command"),
		].filter((text) => text !== null);
		this.#send?.({ progress: this.#reports, message: [this.#now, ...counts].join(", ") });
	}
}

const MAX_COMMAND = 100;

function oneLine(command: string): string {
	const line = command.trim().replaceAll(/\s+/g, " ");
	return line.length > MAX_COMMAND ? `${line.slice(0, MAX_COMMAND)}…` : line;
}

function count(number: number, what: string): string | null {
	if (number === 0) return null;
	return `${number} ${what}${number === 1 ? "" : "s"}`;
}
