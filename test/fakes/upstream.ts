import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type JsonObject = Record<string, unknown>;

/** One model request as it reached the fake. */
export interface Received {
	path: string;
	headers: IncomingHttpHeaders;
	body: JsonObject;
	/** The other side hung up before the answer was complete. */
	isAborted: boolean;
}

export interface Exchange extends Received {
	response: ServerResponse;
	/** Requests before this one. */
	index: number;
}

/** What the engine does with a request. */
export type Reaction = (exchange: Exchange) => void | Promise<void>;

export interface Upstream extends AsyncDisposable {
	readonly baseUrl: string;
	/** Model requests only; a look at /models is not counted, nor a wish for a render, which it does not know. */
	readonly received: Received[];
	react(reaction: Reaction): void;
	/** Resolves when `isTrue` holds; looked at whenever something happens. */
	until(isTrue: () => boolean): Promise<void>;
}

/** A model endpoint over real HTTP that does exactly what it is told, for hangs, resets, errors and recorded streams. */
export async function openUpstream(
	reaction: Reaction,
	options: { ownedBy?: string; port?: number } = {},
): Promise<Upstream> {
	let react = reaction;
	const received: Received[] = [];
	const watchers = new Set<() => void>();
	const tell = () => {
		for (const watcher of watchers) watcher();
	};
	const server = createServer((request, response) => {
		if (request.method === "GET") {
			const data = [{ id: "fake", object: "model", owned_by: options.ownedBy ?? "nobody" }];
			response
				.writeHead(200, { "content-type": "application/json" })
				.end(JSON.stringify({ object: "list", data }));
			return;
		}
		if (request.url === "/tokenize") {
			response.writeHead(404, { "content-type": "application/json" }).end("{}");
			return;
		}
		const chunks: Buffer[] = [];
		request.on("data", (chunk: Buffer) => chunks.push(chunk));
		request.on("end", () => {
			const body = JSON.parse(Buffer.concat(chunks).toString("utf8")) as JsonObject;
			const entry: Received = { path: request.url ?? "", headers: request.headers, body, isAborted: false };
			response.on("close", () => {
				entry.isAborted = !response.writableFinished;
				tell();
			});
			received.push(entry);
			tell();
			void react(Object.assign(Object.create(entry), { response, index: received.length - 1 }) as Exchange);
		});
	});
	await new Promise<void>((resolve) => server.listen(options.port ?? 0, "127.0.0.1", resolve));
	return {
		baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
		received,
		react: (next) => {
			react = next;
		},
		until: (isTrue) =>
			new Promise<void>((resolve) => {
				const look = () => {
					if (!isTrue()) return;
					watchers.delete(look);
					resolve();
				};
				watchers.add(look);
				look();
			}),
		async [Symbol.asyncDispose]() {
			server.closeAllConnections();
			await new Promise((resolve) => server.close(resolve));
		},
	};
}

export { faults } from "./faults.ts";
