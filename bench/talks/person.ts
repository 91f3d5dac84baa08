import type { Client } from "../../src/client/client.ts";
import type { LiveText } from "../../src/model/live-text.ts";
import { answerTo } from "./model.ts";
import { numbering } from "./socket.ts";

/** What one person saw, and when. */
export interface Said {
	pieces: { text: LiveText; at: number }[];
	/** By what the worker read it as. */
	events: { key: string; at: number }[];
	turnEnds: { key: string; at: number }[];
	/** How many answers were the ones that the model gave. */
	right: number;
}

interface Part {
	id: string;
	type: string;
	text?: string;
	time?: { end?: number };
}

const now = () => performance.timeOrigin + performance.now();

/** All are opened, and once every agent is there all of them speak. */
export async function talkAtOnce(
	client: Client,
	baseUrl: string,
	{ talks, turns, pieces }: { talks: number; turns: number; pieces: number },
): Promise<Said[]> {
	let [waiting, answered] = [talks, 0];
	const all = Promise.withResolvers<void>();
	const ready = () => {
		waiting -= 1;
		process.stderr.write(`\r${talks - waiting} of ${talks} are open `);
		if (waiting === 0) all.resolve();
		return all.promise;
	};
	const onAnswer = () => {
		answered += 1;
		process.stderr.write(`\r${answered} of ${talks * turns} answers `);
	};
	const talking = Array.from({ length: talks }, (_, index) =>
		talk(client, baseUrl, { name: `talk${index}`, turns, pieces, ready, onAnswer }),
	);
	return await Promise.all(talking);
}

/** One person's side: says something, reads along, says the next. */
async function talk(
	client: Client,
	baseUrl: string,
	options: { name: string; turns: number; pieces: number; ready: () => Promise<void>; onAnswer: () => void },
): Promise<Said> {
	const { id } = await client.converse({
		endpoint: { type: "url", baseUrl, model: "paced", dialect: "plain" },
		agent: { permission: "ask" },
	});
	const said: Said = { pieces: [], events: [], turnEnds: [], right: 0 };
	const read = new Map<string, string>();
	const key = numbering();
	const noted = (name: string) => said.events.push({ key: key(name), at: now() });
	let [turn, sessionId] = [0, ""];
	const question = () => `${options.name}-turn${turn}`;
	const onText = (text: LiveText) => {
		said.pieces.push({ text, at: now() });
		read.set(text.partId, (read.get(text.partId) ?? "").slice(0, text.offset) + text.text);
	};
	for await (const event of client.conversationEvents(id, { onText, giveUpAfterMs: 600_000 })) {
		if (event.type === "conversation-end") throw new Error(`it ended: ${JSON.stringify(event)}`);
		if (event.type === "phase-start" && event.phase === "agent") {
			await options.ready();
			await client.say(id, question());
		}
		if (event.type === "session-start") ({ sessionId } = event);
		if (event.type === "permission-ask") {
			noted(event.requestId);
			await client.permit(id, event.requestId, { reply: "once" });
		}
		if (event.type === "agent-event") {
			const part = event.properties.part as Part | undefined;
			if (part !== undefined) noted(part.id);
			if (part?.type === "text" && part.time?.end !== undefined) {
				// What was seen while it was written is what is stored; of one that came in a burst the log may have been quicker.
				const seen = read.get(part.id) ?? part.text;
				if (seen !== part.text)
					throw new Error(`${id}: seen was ${JSON.stringify(seen)}, stored is ${JSON.stringify(part.text)}`);
			}
		}
		if (event.type !== "turn-end") continue;
		said.turnEnds.push({ key: key(sessionId), at: now() });
		if (event.text === answerTo(question(), options.pieces)) said.right += 1;
		options.onAnswer();
		turn += 1;
		if (turn === options.turns) break;
		await client.say(id, question());
	}
	await client.closeConversation(id);
	return said;
}
