import { setTimeout as sleep } from "node:timers/promises";
import { sampledTokens } from "./engine.mjs";
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
	const result = waitFor(server, id);
	let [isDone, tokens, lastTokenAt] = [false, before, 0];
	const ended = result.finally(() => {
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
	const what = `a limit of ${LIMIT_S} s on an answer of up to 16,000 tokens`;
	if (began === undefined || lastTokenAt === 0) return say(what, `not shown: ${error}`);
	const over = began.at + LIMIT_S * 1000;
	const hungUpAt = line.hangUps.filter((at) => at > over - 1000).at(0) ?? Number.NaN;
	say(
		what,
		`outcome ${outcome} after ${tokens - before} tokens; the gateway hung up ${afterwards(hungUpAt - over)}, the engine's last token came ${afterwards(lastTokenAt - over)}`,
	);
}

function afterwards(ms) {
	return ms < 0 ? `${-ms} ms before the limit` : `${ms} ms after the limit`;
}
