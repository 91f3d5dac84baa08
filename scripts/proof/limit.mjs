import { setTimeout as sleep } from "node:timers/promises";
import { requestsUnderWay, sampledTokens } from "./engine.mjs";
import { UNTAUGHT } from "./lessons.mjs";
import { openLine } from "./line.mjs";
import { endpointOf, get, submit, waitFor } from "./paddock.mjs";

const LIMIT_S = 15;
const LOOK_MS = 5;

/** So a model babbles, and says again what it has said; it may chance upon an end before, and then there is no answer to cut off. */
const BABBLING = { temperature: 2, frequencyPenalty: -2, maxTokensCap: 16_000 };
const TRIES = 6;

/** A rollout that would babble for minutes is over for the engine when its time is over. */
export async function measureLimit({ server, engine, say }) {
	for (let tries = 1; tries <= TRIES; tries += 1) {
		const found = await runIntoLimit(server, engine);
		if ((found.outcome !== "timeout" || found.hungUpAt === 0) && tries < TRIES) continue;
		return say(`a limit of ${LIMIT_S} s on an answer of up to 16,000 tokens`, describe(found));
	}
}

async function runIntoLimit(server, engine) {
	await using line = await openLine(engine);
	const task = { ...UNTAUGHT, clocks: { agentS: LIMIT_S } };
	const before = await sampledTokens(engine);
	const [id] = await submit(server, task, { endpoint: endpointOf(line), sampling: BABBLING, priority: 1 });
	let [isDone, lastBusyAt] = [false, 0];
	const ended = waitFor(server, id).finally(() => {
		isDone = true;
	});
	while (!isDone) {
		if ((await requestsUnderWay(engine)) > 0) lastBusyAt = Date.now();
		await sleep(LOOK_MS);
	}
	const { outcome, error } = await ended;
	const { items } = await get(server, `/rollouts/${id}/events?limit=5000`);
	const began = items.find((event) => event.type === "phase-start" && event.phase === "agent");
	const overAt = (began?.at ?? 0) + LIMIT_S * 1000;
	// Only a wire that was cut while the engine spoke on it is an answer cut off.
	const hungUpAt = line.hangUps.find((at) => at > overAt - 1000 && lastBusyAt > overAt - 1000) ?? 0;
	const tokens = (await sampledTokens(engine)) - before;
	return { outcome, error, tokens, overAt, lastBusyAt, hungUpAt };
}

function describe({ outcome, error, tokens, overAt, lastBusyAt, hungUpAt }) {
	if (outcome !== "timeout" || hungUpAt === 0)
		return `not shown: ${outcome}, ${error ?? "it ended by itself"}`;
	return `outcome timeout after ${tokens} tokens; the gateway hung up ${toPhrase(hungUpAt - overAt)}, the engine was last at work ${toPhrase(lastBusyAt - overAt)}`;
}

function toPhrase(ms) {
	return ms < 0 ? `${-ms} ms before the limit` : `${ms} ms after the limit`;
}
