import type { Conversation } from "../agent/agent.ts";
import { messageOf, RolloutError } from "../errors.ts";
import type { Rollout } from "../model/rollout.ts";
import { AGENT_LOG_DIR } from "../model/task.ts";
import { pathIn } from "../sandbox/sandbox.ts";
import type { ReadyBox } from "./boxes/ready-box.ts";
import { inTime, unresponsiveBox } from "./clock.ts";
import type { RolloutRecord } from "./record.ts";
import type { Transcript } from "./transcript.ts";

/** The transcript is evidence written by the agent: worth keeping, not worth failing for. */
export async function keepEvidence(
	rollout: Rollout,
	ready: ReadyBox,
	conversation: Conversation | null,
	transcript: Transcript,
	record: RolloutRecord,
): Promise<void> {
	const ms = rollout.request.task.clocks.teardownS * 1000;
	await leaveEvents(ready, record, ms);
	const late = () => new RolloutError("agent", "agent_api_error", "the agent did not hand it over in time");
	try {
		if (conversation !== null) await inTime(transcript.keep(conversation), { ms, late });
		record.logs.agentSaid(await ready.agent.logTail());
	} catch (error) {
		if (!isOfTheBox(error)) throw error;
		record.note(`the transcript could not be read at the end: ${messageOf(error)}`);
	}
}

/** The agent's program, and its box, are what an agent can break; the store is not. */
function isOfTheBox(error: unknown): boolean {
	return !(error instanceof RolloutError) || error.boundary === "agent" || error.boundary === "sandbox";
}

/** Its own events, where tasks and people look for them. What the agent did to that folder is its own affair. */
async function leaveEvents(ready: ReadyBox, record: RolloutRecord, ms: number): Promise<void> {
	const path = `${pathIn(ready.box, AGENT_LOG_DIR)}/opencode.jsonl`;
	const late = () => unresponsiveBox("writing the agent's events", ms / 1000);
	try {
		await inTime(ready.box.writeFile(path, record.logs.agentEvents), { ms, late });
	} catch (error) {
		record.note(`opencode.jsonl could not be written: ${messageOf(error)}`);
	}
}
