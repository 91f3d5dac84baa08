import { subscribe } from "node:diagnostics_channel";
import type { ClientRequest, IncomingMessage } from "node:http";
import { FrameReader } from "../../src/agent/serve/frames.ts";
import { isTelling } from "../../src/conversation/telling.ts";

/** When a piece of an agent's event stream was read from its socket. */
interface Chunk {
	at: number;
	bytes: Buffer;
}

/** What was read, and when: pieces of text by part and offset; what is stored by part, ask or session, and the how-manieth of it. */
export interface Heard {
	texts: [key: string, at: number, text: string][];
	/** `agentAt`: when it was, as OpenCode notes it in what has an end. */
	events: [key: string, at: number, agentAt: number | null][];
}

/** The how-manieth of its name this is, as a key. */
export function numbering(): (name: string) => string {
	const counts = new Map<string, number>();
	return (name) => {
		const count = (counts.get(name) ?? 0) + 1;
		counts.set(name, count);
		return `${name} ${count}`;
	};
}

const now = () => performance.timeOrigin + performance.now();

/**
 * Notes every chunk of every agent's event stream of this process as Node's parser hands it on, before anything of ours sees it.
 * Nothing is parsed before the end, so that measuring costs next to nothing.
 */
export function listenToSockets(): { heard(): Heard } {
	const streams: Chunk[][] = [];
	subscribe("http.client.response.finish", (message) => {
		const { request, response } = message as { request: ClientRequest; response: IncomingMessage };
		if (!request.path.endsWith("/global/event")) return;
		const chunks: Chunk[] = [];
		streams.push(chunks);
		const push = response.push.bind(response);
		response.push = (chunk: Buffer | null, ...rest) => {
			if (chunk !== null) chunks.push({ at: now(), bytes: Buffer.from(chunk) });
			return push(chunk, ...rest);
		};
	});
	return { heard: () => readAll(streams) };
}

function readAll(streams: Chunk[][]): Heard {
	const heard: Heard = { texts: [], events: [] };
	for (const chunks of streams) {
		const frames = new FrameReader(64 * 1024 * 1024);
		const lengths = new Map<string, number>();
		const key = numbering();
		for (const { at, bytes } of chunks)
			for (const frame of frames.read(bytes))
				if (frame.type === "data") read(frame.text, at, lengths, key, heard);
	}
	return heard;
}

interface Properties {
	partID?: string;
	field?: string;
	delta?: string;
	part?: { id: string; time?: { end?: number }; state?: { time?: { end?: number } } };
	id?: string;
	sessionID?: string;
	status?: { type?: string };
}

function read(
	text: string,
	at: number,
	lengths: Map<string, number>,
	key: (name: string) => string,
	{ texts, events }: Heard,
): void {
	const { payload } = JSON.parse(text) as { payload: { type: string; properties: Properties } };
	const { type, properties } = payload;
	if (type === "message.part.delta" && properties.field === "text") {
		const { partID = "", delta = "" } = properties;
		const offset = lengths.get(partID) ?? 0;
		lengths.set(partID, offset + delta.length);
		texts.push([`${partID} ${offset}`, at, delta]);
	}
	if (type === "message.part.updated" && isTelling(type, properties as Record<string, unknown>)) {
		const { id, time, state } = properties.part!;
		events.push([key(id), at, time?.end ?? state?.time?.end ?? null]);
	}
	if (type === "permission.asked") events.push([key(properties.id ?? ""), at, null]);
	if (type === "session.status" && properties.status?.type === "idle")
		events.push([key(properties.sessionID ?? ""), at, null]);
}
