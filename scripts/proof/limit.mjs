import { setTimeout as sleep } from "node:timers/promises";
import { requestsUnderWay, sampledTokens } from "./engine.mjs";
import { HELLO } from "./lessons.mjs";
import { openLine } from "./line.mjs";
import { endpointOf, get, submit, waitFor } from "./paddock.mjs";

const LIMIT_S = 15;
const LOOK_MS = 5;

/** A rollout that would babble for minutes is over for the engine when its time is over. */
export async function measureLimit({ server, engine, say }) {
	await using line = await openLine(engine);
	const task = { ...HELLO, clocks: { agentS: LIMIT_S } };
	const sampling = { temperature: 5, maxTokensCap: 16_000 };
	const before = await sampledTokens(engine);
	const [id] = await submit(server, task, { endpoint: endpointOf(line), sampling, sandbox: "local" });
	const isDone = { now: false };
	const result = waitFor(server, id).finally(() => (isDone.now = true));
	let lastBusyAt = 0;
	while (!isDone.now) {
		if ((await requestsUnderWay(engine)) > 0) lastBusyAt = Date.now();
		await sleep(LOOK_MS);
	}
	const { outcome, error } = await result;
	const { items } = await get(server, `/rollouts/${id}/events?limit=5000`);
	const began = items.find((event) => event.type === "phase-start" && event.phase === "agent");
	const what = `a limit of ${LIMIT_S} s on an answer of up to 16,000 tokens`;
	if (began === undefined || lastBusyAt === 0) return say(what, `not shown: ${error}`);
	const over = began.at + LIMIT_S * 1000;
	const hungUpAt = line.hangUps.filter((at) => at > over - 1000).at(0) ?? Number.NaN;
	const tokens = (await sampledTokens(engine)) - before;
	say(
		what,
		`outcome ${outcome} after ${tokens} tokens; the gateway hung up ${hungUpAt - over} ms after the limit, the engine worked on nothing any more ${lastBusyAt - over} ms after it`,
	);
}
