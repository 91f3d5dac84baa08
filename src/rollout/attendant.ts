import type { AgentRun } from "../agent/agent.ts";
import { messageOf } from "../errors.ts";
import type { Rollout } from "../model/rollout.ts";
import type { RolloutCommand, Store } from "../store/store.ts";
import { coalesce } from "./coalesce.ts";
import type { RolloutRecord } from "./record.ts";

/** How long a person may take to answer before the answer is no. */
const ANSWER_LIMIT_MS = 300_000;
const TRANSCRIPT_EVERY_MS = 1_000;
/** A long transcript takes long to fetch; it may cost no more than this share of the time. */
const TRANSCRIPT_SHARE = 0.1;

/**
 * Stands beside a working agent: answers what it asks (by policy, or with what a watcher said), passes on what a watcher sends,
 * and keeps the stored transcript fresh for whoever reads along.
 */
export class Attendant {
	readonly #rollout: Rollout;
	readonly #store: Store;
	readonly #record: RolloutRecord;
	readonly #open = new Map<string, NodeJS.Timeout>();
	#run: AgentRun | null = null;
	/** What had to be said before there was a run to say it to. */
	readonly #early: RolloutCommand[] = [];
	/** The number of the last command that was carried out. */
	#obeyed = 0;
	#stirred = false;
	/** Never rejects. */
	#writing: Promise<void> | null = null;
	#restUntil = 0;

	constructor(rollout: Rollout, store: Store, record: RolloutRecord) {
		this.#rollout = rollout;
		this.#store = store;
		this.#record = record;
	}

	attend(run: AgentRun): Disposable {
		this.#run = run;
		const takeCommands = coalesce(
			async () => {
				const { id, attempt } = this.#rollout;
				for (const { number, command } of await this.#store.commands(id, attempt)) {
					// Dropping what was obeyed before may have failed.
					if (number > this.#obeyed) await this.#obey(command);
					this.#obeyed = number;
					await this.#store.dropCommands(id, attempt, number);
				}
			},
			(error) => this.#record.note(`commands could not be read: ${messageOf(error)}`),
		);
		const watching = this.#store.watch(this.#rollout.id, takeCommands);
		const writing = setInterval(() => this.#refresh(run), TRANSCRIPT_EVERY_MS);
		takeCommands();
		for (const command of this.#early.splice(0)) void this.#obey(command);
		return {
			[Symbol.dispose]: () => {
				watching[Symbol.dispose]();
				clearInterval(writing);
				for (const timer of this.#open.values()) clearTimeout(timer);
				this.#run = null;
			},
		};
	}

	/** Something was said or done: the stored transcript is out of date. */
	stirred(): void {
		this.#stirred = true;
	}

	/** The last word, after whatever is being written: an older transcript must not come to lie over it. */
	async keepTranscript(run: AgentRun): Promise<void> {
		await this.#writing;
		const messages = Buffer.from(JSON.stringify(await run.messages()));
		await this.#store.putBlob(this.#rollout.id, this.#rollout.attempt, "transcript.json", messages);
	}

	permission(ask: { requestId: string; permission: string; patterns: string[] }): void {
		this.#record.emit({ type: "permission-ask", ...ask });
		const allowed = this.#rollout.request.agent.permission === "allow";
		this.#later(ask.requestId, allowed ? 0 : ANSWER_LIMIT_MS, {
			type: "permission",
			requestId: ask.requestId,
			reply: allowed ? "once" : "reject",
			by: allowed ? "policy" : "deadline",
		});
	}

	question(ask: { requestId: string; questions: unknown[] }): void {
		this.#record.emit({ type: "question-ask", ...ask });
		const alone = this.#rollout.request.agent.permission === "allow";
		const by = alone ? "policy" : "deadline";
		this.#later(ask.requestId, alone ? 0 : ANSWER_LIMIT_MS, {
			type: "question",
			requestId: ask.requestId,
			answers: null,
			by,
		});
	}

	#later(requestId: string, delayMs: number, command: RolloutCommand): void {
		clearTimeout(this.#open.get(requestId));
		this.#open.set(
			requestId,
			setTimeout(() => void this.#obey(command), delayMs),
		);
	}

	async #obey(command: RolloutCommand): Promise<void> {
		const run = this.#run;
		if (run === null) {
			this.#early.push(command);
			return;
		}
		try {
			if (command.type === "send") {
				await run.send(command.text);
				this.#record.emit({ type: "message-sent", text: command.text, by: command.by });
				return;
			}
			clearTimeout(this.#open.get(command.requestId));
			this.#open.delete(command.requestId);
			const { requestId, by } = command;
			if (command.type === "permission") {
				await run.answerPermission(requestId, command.reply, command.message);
				this.#record.emit({ type: "permission-end", requestId, reply: command.reply, by });
			} else {
				await run.answerQuestion(requestId, command.answers);
				this.#record.emit({ type: "question-end", requestId, by });
			}
		} catch (error) {
			this.#record.note(`${command.type} from ${command.by} did not reach the agent: ${messageOf(error)}`);
		}
	}

	#refresh(run: AgentRun): void {
		if (!this.#stirred || this.#writing !== null || performance.now() < this.#restUntil) return;
		this.#stirred = false;
		const startedAt = performance.now();
		this.#writing = this.keepTranscript(run)
			.catch(() => {
				// A busy agent may answer late; the next stir, or the end, writes it.
				this.#stirred = true;
			})
			.then(() => {
				this.#writing = null;
				this.#restUntil = performance.now() + (performance.now() - startedAt) / TRANSCRIPT_SHARE;
			});
	}
}
