import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { PROVIDER_ID } from "../../agent/keeper/home.ts";
import { type ReachedAgent, WORK_THERE } from "../../agent/keeper/reached.ts";
import { RolloutError, UsageError, within } from "../../errors.ts";
import { toTimerMs } from "../../model/duration.ts";
import type { Failure } from "../../model/failure.ts";
import type { AgentOptions, StoredTerms } from "../../model/request.ts";
import type { Rollout } from "../../model/rollout.ts";
import type { Deps } from "../deps.ts";
import { HaltSwitch } from "../halt.ts";
import { hideIn, hiding } from "../login/hiding.ts";
import type { RolloutRecord } from "../record.ts";
import { Transcript } from "../transcript.ts";
import { catchUp } from "./catch-up.ts";
import { findFolder } from "./folder.ts";
import { openConversation } from "./open-conversation.ts";
import type { Past } from "./recall.ts";
import { haltOn, type TalkEnd, type TalkSignals, talk, toEnd } from "./talk.ts";
import { TurnSlot } from "./turn-slot.ts";

/** Whoever decides has the sharper clock; this is for asks that nobody takes. */
const DECIDE_GRACE_MS = 5_000;

/**
 * A conversation with an agent that is kept on this machine, outside any box. It remembers by itself: its session is taken up where
 * it stopped. Its models, its key and what it may spend are its own.
 */
export async function talkWithKept(
	submitted: Rollout,
	past: Past,
	world: Deps,
	record: RolloutRecord,
	signals: TalkSignals,
): Promise<TalkEnd> {
	const terms = submitted.request.conversation!;
	const halt = new HaltSwitch();
	using _halting = haltOn(halt, signals.leave, terms, past);
	using reached = await asAgentFailure(() => world.kept.reach(terms.keptAgent!));
	// Its keys lie in its home, which it can read.
	const deps = { ...world, store: hiding(world.store) };
	record.cover(deps.store, hideIn);
	const { agent, over } = reached;
	using _over = halt.on(over, (why) => ({ type: "failure", failure: stopped(agent.name, why) }));
	const rollout = guarded(submitted, agent.permission);
	const { permissionDeadlineS } = rollout.request.agent;
	const options = {
		directory: await directoryOf(terms, reached),
		title: `Paddock ${rollout.id}`,
		sessionId: past.sessionId ?? undefined,
		times: { decideMs: toTimerMs(permissionDeadlineS * 1000 + DECIDE_GRACE_MS) },
	};
	await using conversation = await openConversation(() => reached.open(options), halt);
	if (conversation === null) return toEnd(halt.reason);
	const transcript = new Transcript(rollout, deps.store);
	const recall = () => catchUp(past, conversation, transcript, record);
	const left =
		past.sessionId === null ? past : await within("agent", "agent_api_error", recall, { retryable: true });
	using slot = new TurnSlot(async () => ({ [Symbol.dispose]: () => {} }));
	const setModel = (model: string) => {
		if (!agent.models.includes(model))
			throw new Error(`the agent ${agent.name} has the models ${agent.models.join(", ")}`);
		conversation.setModel(`${PROVIDER_ID}/${model}`);
	};
	// Its models may have been changed since.
	const model = past.model !== null && agent.models.includes(past.model) ? past.model : null;
	const live = { conversation, transcript, slot, halt, setModel, keep: async () => {} };
	const end = await talk(rollout, { ...left, model }, live, deps, record, signals);
	await transcript.keep(conversation).catch(() => record.note("the transcript could not be read at the end"));
	return end;
}

/** What it is set up to ask, or not to do, holds for everybody who talks to it. */
function guarded(rollout: Rollout, own: AgentOptions["permission"]): Rollout {
	const { request } = rollout;
	const permission = [own, request.agent.permission].sort((one, other) => STRICT[other] - STRICT[one])[0]!;
	return { ...rollout, request: { ...request, agent: { ...request.agent, permission } } };
}

const STRICT = { allow: 0, ask: 1, deny: 2 };

function stopped(name: string, why: unknown): Failure {
	const message = `the agent ${name} runs no longer: ${String(why)}`;
	return { boundary: "agent", code: "agent_stopped", message, retryable: false };
}

/** A folder that was asked for; else one below the agent's home. */
async function directoryOf({ folder }: StoredTerms, { agent }: ReachedAgent): Promise<string> {
	if (folder !== undefined) return (await findFolder(folder, null)).path;
	if (agent.host !== null) return await readFile(join(agent.home, WORK_THERE), "utf8");
	const own = join(agent.home, "work");
	await mkdir(own, { recursive: true, mode: 0o700 });
	return own;
}

/** What may be otherwise when somebody tries again: another worker has it, or whoever used it has gone. */
const PASSING = new Set(["agent_kept", "agent_not_here", "credential_held"]);

async function asAgentFailure<T>(act: () => Promise<T>): Promise<T> {
	try {
		return await act();
	} catch (error) {
		if (!(error instanceof UsageError)) throw error;
		const retryable = PASSING.has(error.code);
		throw new RolloutError("agent", error.code, error.message, { retryable, cause: error });
	}
}
