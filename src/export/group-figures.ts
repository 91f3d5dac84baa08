import { createHash } from "node:crypto";
import type { ModelCall } from "../model/call.ts";
import type { GroupSummary, Store } from "../store/store.ts";
import { readCalls } from "../store/trace/trace-log.ts";
import { advantageOf } from "./advantage.ts";

/** How one member of a group went, as far as its calls tell. */
export interface MemberFigures {
	id: string;
	reward: number | null;
	advantage: number | null;
	/** Calls of the agent and its sub-agents. */
	calls: number;
	/** Tokens that were sampled in them, and their mean logprob where the engine told. */
	length: number;
	meanLogprob: number | null;
	/** The first of these calls that was answered otherwise than the first member's; null where all were alike. */
	differsAt: number | null;
}

/** Traces may be long: so many are read for one answer. */
const MEMBERS = 64;
/** Chosen by engines and agents anew each time. */
const CHANCE = new Set(["id", "call_id", "tool_call_id"]);

/** Reads the calls of the first members one after the other; only a digest of each answer is kept. */
export async function groupFigures(
	store: Pick<Store, "row" | "readTrace">,
	group: GroupSummary,
): Promise<MemberFigures[]> {
	const figures: MemberFigures[] = [];
	let first: string[] | null = null;
	for (const { id, reward } of group.rollouts.slice(0, MEMBERS)) {
		const row = await store.row(id);
		const read = await readFigures(readCalls(() => store.readTrace(id, row?.attempt ?? 0)));
		const { answers, ...counted } = read;
		first ??= answers;
		figures.push({
			...{ id, reward, advantage: advantageOf(reward, group), calls: answers.length },
			...counted,
			differsAt: firstDifference(first, answers),
		});
	}
	return figures;
}

async function readFigures(calls: AsyncIterable<ModelCall>) {
	const answers: string[] = [];
	let [length, sum, known] = [0, 0, 0];
	for await (const call of calls) {
		if (call.superseded || (call.purpose !== "main" && call.purpose !== "subagent")) continue;
		answers.push(digest(call.response.message));
		length += call.completionIds.length || (call.usage?.completionTokens ?? 0);
		for (const logprob of call.logprobs) sum += logprob;
		known += call.logprobs.length;
	}
	return { answers, length, meanLogprob: known === 0 ? null : sum / known };
}

function firstDifference(first: string[], answers: string[]): number | null {
	const longer = first.length > answers.length ? first : answers;
	const at = longer.findIndex((_, index) => first[index] !== answers[index]);
	return at < 0 ? null : at;
}

function digest(message: unknown): string {
	const said = JSON.stringify(message, (key, value) => (CHANCE.has(key) ? undefined : value));
	return createHash("sha1").update(String(said)).digest("base64");
}
