import type { Conversation } from "../../agent/agent.ts";
import { within } from "../../errors.ts";
import { WORKDIR } from "../../model/task.ts";
import { pathIn } from "../../sandbox/sandbox.ts";
import type { ReadyBox } from "../boxes/ready-box.ts";
import type { HaltSwitch } from "../halt.ts";

/** Null when it had to stop before the agent could be talked to. */
export async function openConversation(
	open: () => Promise<Conversation>,
	halt: HaltSwitch,
): Promise<Conversation | null> {
	const opening = within("agent", "agent_start_failed", open, { retryable: true });
	const conversation = await Promise.race([opening, halt.halted]);
	// One that opens all the same is let go; why one did not no longer matters.
	if (conversation === null) opening.then((late) => late[Symbol.asyncDispose]()).catch(() => {});
	return conversation;
}

export function inWorkdir({ agent, box }: ReadyBox, options: { sessionId?: string } = {}) {
	return () => agent.open(pathIn(box, WORKDIR), options);
}
