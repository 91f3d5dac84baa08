import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Client, createClient } from "../src/client/client.ts";
import type { LiveText } from "../src/model/live-text.ts";
import { freePort, startDaemon } from "../test/fixtures/daemon.ts";
import { startPostgres } from "../test/fixtures/postgres.ts";
import { answerTo, openPacedModel } from "./talks/model.ts";

const TALKS = Number(process.env.PADDOCK_BENCH_TALKS ?? 32);
const TURNS = 3;
const PIECES = 40;
const PIECE_EVERY_MS = 50;
const HOST = fileURLToPath(new URL("talks/host.ts", import.meta.url));
const now = () => performance.timeOrigin + performance.now();

/** Conversations at once: is every answer right, and how much later than its worker does a caller have it? */
export async function benchTalks(print: (text: string) => void): Promise<void> {
	await using model = await openPacedModel(PIECES, PIECE_EVERY_MS);
	print(
		`${TALKS} conversations at once with the real agent, ${TURNS} turns each, ${PIECES} pieces of text a turn, one every ${PIECE_EVERY_MS} ms, from a scripted model. ${cpus().length} cores.`,
	);
	print("");
	print(
		"| where | right answers | pieces | delay of text, ms: median, p99 | delay of stored events, ms: median | load |",
	);
	print("|---|---|---|---|---|---|");
	print(await measure("one process, embedded store", model.baseUrl, null));
	await using postgres = await startPostgres();
	print(await measure("server and worker apart, PostgreSQL", model.baseUrl, postgres.url));
	print("");
	print(
		"Delay of text: from the worker hearing a piece of the agent until a caller of the server has it. Of stored events: from the end of a text by the agent's own clock until a caller has its event, the agent's part included.",
	);
}

async function measure(where: string, baseUrl: string, databaseUrl: string | null): Promise<string> {
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
	await once(host, "message");
	const client = createClient({ baseUrl: `http://127.0.0.1:${port}` });
	const talks = await Promise.all(Array.from({ length: TALKS }, (_, index) => talk(client, baseUrl, index)));
	const load = loadavg()[0]!;
	host.send("over");
	const [{ heard }] = (await once(host, "message")) as [{ heard: [string, number][] }];
	if (host.exitCode === null) await once(host, "exit");
	const heardAt = new Map(heard);
	const texts = talks.flatMap(({ seen }) => seen.flatMap((piece) => delaysOf(piece, heardAt)));
	const stored = talks.flatMap((each) => each.stored);
	const right = talks.reduce((sum, each) => sum + each.right, 0);
	if (right !== TALKS * TURNS)
		throw new Error(`${where}: only ${right} of ${TALKS * TURNS} answers were right`);
	return `| ${where} | ${right} of ${TALKS * TURNS} | ${texts.length} | ${at(texts, 0.5)}, ${at(texts, 0.99)} | ${at(stored, 0.5)} | ${load.toFixed(1)} |`;
}

interface Seen {
	id: string;
	text: LiveText;
	at: number;
}

/** One person's side: says something, reads along, says the next. */
async function talk(client: Client, baseUrl: string, index: number) {
	const { id } = await client.converse({
		endpoint: { type: "url", baseUrl, model: "paced", dialect: "plain" },
	});
	const seen: Seen[] = [];
	const stored: number[] = [];
	const read = new Map<string, string>();
	let right = 0;
	let turn = 0;
	const question = () => `talk${index}-turn${turn}`;
	const onText = (text: LiveText) => {
		seen.push({ id, text, at: now() });
		read.set(text.partId, (read.get(text.partId) ?? "").slice(0, text.offset) + text.text);
	};
	await client.say(id, question());
	for await (const event of client.conversationEvents(id, { onText, giveUpAfterMs: 600_000 })) {
		if (event.type === "conversation-end") throw new Error(`it ended: ${JSON.stringify(event)}`);
		if (event.type === "agent-event") {
			const part = event.properties.part as {
				id: string;
				type: string;
				text?: string;
				time?: { end?: number };
			};
			if (part?.type === "text" && part.time?.end !== undefined) {
				stored.push(now() - part.time.end);
				// What was seen while it was written is what is stored.
				if (read.get(part.id) !== part.text) throw new Error(`${id}: the text seen is not the text stored`);
			}
		}
		if (event.type !== "turn-end") continue;
		if (event.text === answerTo(question(), PIECES)) right += 1;
		turn += 1;
		if (turn === TURNS) break;
		await client.say(id, question());
	}
	await client.closeConversation(id);
	return { seen, stored, right };
}

/** A piece may hold several that the worker heard one by one. */
function delaysOf({ id, text, at: seenAt }: Seen, heardAt: ReadonlyMap<string, number>): number[] {
	const delays: number[] = [];
	for (let offset = text.offset; offset < text.offset + text.text.length; offset += 1) {
		const heard = heardAt.get(`${id} ${text.partId} ${offset}`);
		if (heard !== undefined) delays.push(seenAt - heard);
	}
	return delays;
}

function at(values: number[], fraction: number): string {
	const sorted = values.toSorted((a, b) => a - b);
	return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN).toFixed(1);
}
