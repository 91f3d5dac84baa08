import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient } from "../src/client/client.ts";
import { freePort, startDaemon } from "../test/fixtures/daemon.ts";
import { startPostgres } from "../test/fixtures/postgres.ts";
import { openPacedModel } from "./talks/model.ts";
import { type Said, talkAtOnce } from "./talks/person.ts";
import type { Heard } from "./talks/socket.ts";

const TALKS = Number(process.env.PADDOCK_BENCH_TALKS ?? 32);
const TURNS = 3;
const PIECES = 20;
const PIECE_EVERY_MS = 200;
/** What Paddock may add to a stored event, at the median. */
const GOAL_MS = 10;
const HOST = fileURLToPath(new URL("talks/host.ts", import.meta.url));

type Model = Awaited<ReturnType<typeof openPacedModel>>;

/** Conversations at once: is every answer right, and how much later does a caller have what Paddock read from the agent? */
export async function benchTalks(print: (text: string) => void): Promise<void> {
	print(
		`${TALKS} conversations at once with the real agent, ${TURNS} turns each, in each a command that a person permits and ${PIECES} pieces of text, one every ${PIECE_EVERY_MS} ms, from a scripted model. ${cpus().length} cores. Delays in ms: median, p99.`,
	);
	print("");
	print(
		"| where | right answers | pieces seen | Paddock: text | Paddock: stored events | ends of turns | agent: text | agent: stored events | load |",
	);
	print("|---|---|---|---|---|---|---|---|---|");
	print(await measure("one process, embedded store", null));
	await using postgres = await startPostgres();
	print(await measure("server and worker apart, PostgreSQL", postgres.url));
	print("");
	print(
		"Paddock: from the moment its worker has read an event from the socket of the agent's server until a caller of the HTTP server has it. Stored events are tools, asks and finished texts; the end of a turn is told once the agent has handed over what was said in it. Agent: what passed before that: for text since the model wrote it (gateway and OpenCode), for stored events since the end that OpenCode notes in them. Pieces that are not seen came in a burst whose stored event was quicker than they.",
	);
}

async function measure(where: string, databaseUrl: string | null): Promise<string> {
	await using model = await openPacedModel(PIECES, PIECE_EVERY_MS);
	const { said, heard, load } = await talkAll(model, databaseUrl);
	const right = said.reduce((sum, each) => sum + each.right, 0);
	if (right !== TALKS * TURNS)
		throw new Error(`${where}: only ${right} of ${TALKS * TURNS} answers were right`);
	const textAt = new Map(heard.texts.map(([key, at]) => [key, at]));
	const texts = said.flatMap(({ pieces }) => pieces.flatMap((piece) => delaysOf(piece, textAt)));
	const heardAt = new Map(heard.events.map(([key, at]) => [key, at]));
	const delaysBy = (of: "events" | "turnEnds") =>
		said.flatMap((each) => each[of].map(({ key, at }) => at - heardAt.get(key)!));
	const [stored, turnEnds] = [delaysBy("events"), delaysBy("turnEnds")];
	const written = heard.texts.map(([, at, text]) => at - model.wroteAt.get(text)!);
	const ended = heard.events.flatMap(([, at, agentAt]) => (agentAt === null ? [] : [at - agentAt]));
	const median = Number(quantile(stored, 0.5));
	if (!(median < GOAL_MS)) throw new Error(`${where}: stored events take ${median} ms, not below ${GOAL_MS}`);
	const delays = [texts, stored, turnEnds, written, ended].map(
		(values) => `${quantile(values, 0.5)}, ${quantile(values, 0.99)}`,
	);
	return `| ${where} | ${right} of ${TALKS * TURNS} | ${texts.length} of ${heard.texts.length} | ${delays.join(" | ")} | ${load.toFixed(1)} |`;
}

async function talkAll(
	model: Model,
	databaseUrl: string | null,
): Promise<{ said: Said[]; heard: Heard; load: number }> {
	const home = await mkdtemp(join(tmpdir(), "paddock-talks-"));
	const port = await freePort();
	const env: Record<string, string> = {
		PADDOCK_HOME: home,
		...(databaseUrl === null ? {} : { PADDOCK_DATABASE_URL: databaseUrl }),
	};
	await using stack = new AsyncDisposableStack();
	stack.defer(() => rm(home, { recursive: true, force: true }));
	if (databaseUrl !== null)
		stack.use(await startDaemon(["serve", "--port", String(port), "--no-worker"], env));
	const host = fork(HOST, [databaseUrl === null ? String(port) : "0", String(TALKS)], {
		env: { ...process.env, ...env },
	});
	// Gone before its folder is: it would write another.
	stack.defer(async () => {
		if (host.kill()) await once(host, "exit");
	});
	await once(host, "message");
	const client = createClient({ baseUrl: `http://127.0.0.1:${port}` });
	const said = await talkAtOnce(client, model.baseUrl, { talks: TALKS, turns: TURNS, pieces: PIECES });
	const load = loadavg()[0]!;
	host.send("over");
	const [heard] = (await once(host, "message")) as [Heard];
	if (host.exitCode === null) await once(host, "exit");
	return { said, heard, load };
}

/** A piece may hold several that the worker heard one by one. */
function delaysOf({ text, at }: Said["pieces"][number], heardAt: ReadonlyMap<string, number>): number[] {
	const delays: number[] = [];
	for (let offset = text.offset; offset < text.offset + text.text.length; offset += 1) {
		const heard = heardAt.get(`${text.partId} ${offset}`);
		if (heard !== undefined) delays.push(at - heard);
	}
	return delays;
}

function quantile(values: number[], fraction: number): string {
	const sorted = values.filter((value) => !Number.isNaN(value)).toSorted((a, b) => a - b);
	return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN).toFixed(1);
}
