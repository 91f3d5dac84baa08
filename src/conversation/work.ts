import { setTimeout as delay } from "node:timers/promises";
import type { AgentTrouble, CloseReason, Conversation, Turn } from "../agent/agent.ts";
import { messageOf, within } from "../errors.ts";
import type { Outcome } from "../model/failure.ts";
import type { Attendant } from "./attendant.ts";

/** How an agent's work came to its end. */
export interface WorkEnd {
	outcome: Outcome;
	exitCode: number | null;
	error: Pick<AgentTrouble, "code" | "message"> | null;
}

/** After an interrupt OpenCode kills its tools and reports idle; this long it may take. */
const INTERRUPT_GRACE_MS = 3_000;

/**
 * Gives the agent its instruction and waits until it has settled and nobody has more to say to it; or until `signal` fires, and
 * interrupts it. A rollout is a conversation of one turn, unless somebody steers. Throws only when the instruction was not taken.
 */
export async function workOff(
	conversation: Conversation,
	attendant: Attendant,
	instruction: string,
	signal: AbortSignal,
): Promise<WorkEnd> {
	const seen: { turn: Turn | null; closed: CloseReason | null } = { turn: null, closed: null };
	using _listening = conversation.subscribe((event) => {
		if (event.type === "turn-end") seen.turn = event.turn;
		if (event.type === "closed") seen.closed = event.reason;
	});
	const stopped = Promise.withResolvers<"stopped">();
	const stop = () => stopped.resolve("stopped");
	signal.addEventListener("abort", stop);
	if (signal.aborted) stop();
	try {
		const sending = within("agent", "agent_start_failed", () => conversation.send(instruction), {
			retryable: true,
		});
		if ((await Promise.race([sending, stopped.promise])) === "stopped") {
			// Why it was not taken no longer matters.
			sending.catch(() => {});
			return await stopWork(conversation);
		}
		attendant.begun();
		do {
			const first = await Promise.race([quiet(conversation, attendant), stopped.promise]);
			if (first === "stopped") return await stopWork(conversation);
		} while (conversation.pending && seen.closed === null);
	} finally {
		signal.removeEventListener("abort", stop);
	}
	return toEnd(seen.turn, seen.closed);
}

/** What was said while it settled begins another turn. */
async function quiet(conversation: Conversation, attendant: Attendant): Promise<void> {
	await conversation.settled();
	await attendant.quiet();
}

async function stopWork(conversation: Conversation): Promise<WorkEnd> {
	const aborted: WorkEnd = { outcome: "aborted", exitCode: null, error: null };
	try {
		await Promise.race([conversation.interrupt(), delay(INTERRUPT_GRACE_MS, null, { ref: false })]);
		return aborted;
	} catch (error) {
		// The box's end is the backstop.
		return { ...aborted, error: { code: "agent_abort_failed", message: messageOf(error) } };
	}
}

function toEnd(turn: Turn | null, closed: CloseReason | null): WorkEnd {
	if (closed !== null) {
		const { code, message, exitCode } = closed;
		return { outcome: code === "asked" ? "aborted" : "failed", exitCode, error: { code, message } };
	}
	if (turn?.error != null) {
		const isAbort = turn.ended === "interrupted" || turn.error.code === "MessageAbortedError";
		return { outcome: isAbort ? "aborted" : "failed", exitCode: 1, error: turn.error };
	}
	return { outcome: turn?.ended === "interrupted" ? "aborted" : "completed", exitCode: 0, error: null };
}
