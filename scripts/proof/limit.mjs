import { setTimeout as sleep } from "node:timers/promises";
import { sampledTokens } from "./engine.mjs";
import { HELLO } from "./lessons.mjs";
import { openLine } from "./line.mjs";
import { endpointOf, get, submit, waitFor } from "./paddock.mjs";

const LIMIT_S = 15;
const LOOK_MS = 5;

/** At this temperature a model babbles on; now and then it chances upon an end all the same, and there is no answer to cut off. */
const TEMPERATURE = 10;
const TRIES = 4;

/** A rollout that would babble for minutes is over for the engine when its time is over. */
export async function measureLimit({ server, engine, say }) {
	for (let tries = 1; tries <= TRIES; tries += 1) {
		const found = await runIntoLimit(server, engine);
		if (found.outcome !== "timeout" && tries < TRIES) continue;
		return say(`a limit of ${LIMIT_S} s on an answer of up to 16,000 tokens`, describe(found));
	}
}

async function runIntoLimit(server, engine) {
	await using line = await openLine(engine);
	const task = { ...HELLO, clocks: { agentS: LIMIT_S } };
	const sampling = { temperature: TEMPERATURE, maxTokensCap: 16_000 };
	const before = await sampledTokens(engine);
	const [id] = await submit(server, task, { endpoint: endpointOf(line), sampling });
	let [isDone, tokens, lastTokenAt] = [false, before, 0];
	const ended = waitFor(server, id).finally(() => {
		isDone = true;
	});
	while (!isDone) {
		const now = await sampledTokens(engine);
		if (now > tokens) lastTokenAt = Date.now();
		tokens = now;
		await sleep(LOOK_MS);
	}
	const { outcome, error } = await ended;
	const { items } = await get(server, `/rollouts/${id}/events?limit=5000`);
	const began = items.find((event) => event.type === "phase-start" && event.phase === "agent");
	const overAt = (began?.at ?? 0) + LIMIT_S * 1000;
	const hungUpAt = line.hangUps.find((at) => at > overAt - 1000) ?? 0;
	return { outcome, error, tokens: tokens - before, overAt, lastTokenAt, hungUpAt };
}

function describe({ outcome, error, tokens, overAt, lastTokenAt, hungUpAt }) {
	if (outcome !== "timeout" || hungUpAt === 0)
		return `not shown: ${outcome}, ${error ?? "it ended by itself"}`;
	return `outcome timeout after ${tokens} tokens; the gateway hung up ${toPhrase(hungUpAt - overAt)}, the engine's last token came ${toPhrase(lastTokenAt - overAt)}`;
}

function toPhrase(ms) {
	return ms < 0 ? `${-ms} ms before the limit` : `${ms} ms after the limit`;
}
