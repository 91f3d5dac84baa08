import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface FakeRequest {
	method: string;
	path: string;
	body: unknown;
	headers: IncomingMessage["headers"];
}

type Answer = (request: FakeRequest, response: ServerResponse) => unknown;

/**
 * Speaks the few calls and the event stream of `opencode serve` over real sockets, and says exactly what a test wants, when it wants:
 * late events, lost ones, malformed frames, refusals. What the real binary can be brought to do is tested with the real binary.
 */
export async function openFakeApi() {
	const streams = new Set<ServerResponse>();
	const requests: FakeRequest[] = [];
	const answers = new Map<string, Answer>();
	const state = {
		statuses: {} as Record<string, unknown>,
		messages: [] as unknown[],
		permissions: [] as unknown[],
		questions: [] as unknown[],
		children: {} as Record<string, string[]>,
		parents: {} as Record<string, string>,
		/** What an event stream is answered with. */
		eventStatus: 200,
		connections: 0,
	};
	const defaults: [RegExp, (match: RegExpExecArray) => unknown][] = [
		[/^POST \/session$/, () => ({ id: "ses_root", directory: "/real" })],
		[/^GET \/session\/status$/, () => state.statuses],
		[
			/^GET \/session\/(\w+)\/children$/,
			([, id]) => (state.children[id!] ?? []).map((child) => ({ id: child })),
		],
		[/^GET \/session\/(\w+)\/message/, () => state.messages],
		[/^GET \/session\/(\w+)$/, ([, id]) => ({ id, parentID: state.parents[id!], directory: "/real" })],
		[/^GET \/permission$/, () => state.permissions],
		[/^GET \/question$/, () => state.questions],
		[/.*/, () => true],
	];
	const server = createServer(async (request, response) => {
		const { headers } = request;
		const entry = { method: request.method!, path: request.url!, body: await readJson(request), headers };
		const name = `${entry.method} ${entry.path}`;
		if (entry.path === "/global/event") {
			state.connections += 1;
			response.writeHead(state.eventStatus, { "content-type": "text/event-stream" });
			if (state.eventStatus !== 200) return void response.end();
			streams.add(response);
			response.on("close", () => streams.delete(response));
			response.write(frame({ payload: { type: "server.connected", properties: {} } }));
			return;
		}
		requests.push(entry);
		const own = [...answers].find(([prefix]) => name.startsWith(prefix));
		if (own && (await own[1](entry, response)) !== "default") return;
		const [pattern, body] = defaults.find(([one]) => one.test(name))!;
		const isPrompt = /prompt_async$/.test(name);
		response.writeHead(isPrompt ? 204 : 200, { "content-type": "application/json" });
		response.end(isPrompt ? undefined : JSON.stringify(body(pattern.exec(name)!)));
	});
	server.listen(0, "127.0.0.1");
	await once(server, "listening");
	const write = (text: string | Uint8Array) => {
		for (const stream of streams) stream.write(text);
	};
	return {
		url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
		state,
		requests,
		/** Requests whose name begins so are answered by this. */
		answer: (prefix: string, how: Answer) => answers.set(prefix, how),
		posts: (part: string) => requests.filter(({ method, path }) => method === "POST" && path.includes(part)),
		write,
		tell: (type: string, properties: Record<string, unknown>, directory = "/real") =>
			write(frame({ directory, payload: { id: "evt_1", type, properties } })),
		cut: () => {
			for (const stream of streams) stream.destroy();
		},
		async [Symbol.asyncDispose]() {
			server.closeAllConnections();
			server.close();
		},
	};
}

export type FakeApi = Awaited<ReturnType<typeof openFakeApi>>;

export function frame(value: unknown): string {
	return `data: ${JSON.stringify(value)}\n\n`;
}

export function refuse(status: number): Answer {
	return (_request, response) => {
		response.writeHead(status);
		response.end("{}");
	};
}

async function readJson(request: IncomingMessage): Promise<unknown> {
	const chunks: Buffer[] = [];
	for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
	const text = Buffer.concat(chunks).toString("utf8");
	return text === "" ? null : JSON.parse(text);
}
