import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";
import type { Endpoint } from "../../model/endpoint.ts";
import type { JsonObject, Protocol } from "../protocols/protocol.ts";

/** Lets the receiver slow the engine down. */
export interface Flow {
	pause(): void;
	resume(): void;
}

export interface Receiver {
	start(status: number, headers: IncomingHttpHeaders, flow: Flow): void;
	/** True: the answer is complete, whatever the connection still says. */
	data(chunk: Buffer): boolean;
}

export interface UpstreamRequest {
	endpoint: Endpoint;
	protocol: Protocol;
	body: JsonObject;
	streams: boolean;
	/** Headers of the agent that may travel on. */
	headers: Record<string, string>;
	headersMs: number;
	chunkMs: number;
	signal: AbortSignal;
}

/** How long a connection may linger after a complete answer before it is closed instead of reused. */
const LINGER_MS = 1000;

/** Sends one request; resolves when the answer is complete, rejects when the transport, the receiver or the signal breaks it. */
export function send(dispatcher: Dispatcher, request: UpstreamRequest, receiver: Receiver): Promise<void> {
	const { promise, resolve, reject } = Promise.withResolvers<void>();
	const url = new URL(request.endpoint.baseUrl);
	const { signal } = request;
	let cut: ((reason: Error) => void) | null = null;
	let isComplete = false;
	let lingering: NodeJS.Timeout | undefined;
	// Before the connection stands there is nothing to cut, and nothing to wait for.
	const onAbort = () => (cut ?? reject)(signal.reason as Error);
	if (signal.aborted) return Promise.reject(signal.reason as Error);
	signal.addEventListener("abort", onAbort, { once: true });
	dispatcher.dispatch(
		{
			origin: url.origin,
			path: `${url.pathname.replace(/\/+$/, "")}${request.protocol.path}${url.search}`,
			method: "POST",
			headers: toHeaders(request),
			body: JSON.stringify(request.body),
			headersTimeout: request.headersMs,
			bodyTimeout: request.chunkMs,
		},
		{
			onRequestStart(controller) {
				cut = (reason) => controller.abort(reason);
				if (signal.aborted) onAbort();
			},
			onResponseStart(controller, status, headers) {
				if (status < 200) return;
				receiver.start(status, headers, controller);
			},
			onResponseData(controller, chunk) {
				if (isComplete) return;
				try {
					if (!receiver.data(chunk)) return;
				} catch (error) {
					controller.abort(error as Error);
					return;
				}
				isComplete = true;
				lingering = setTimeout(() => controller.abort(new Error("lingering")), LINGER_MS).unref();
				resolve();
			},
			onResponseEnd() {
				clearTimeout(lingering);
				signal.removeEventListener("abort", onAbort);
				isComplete = true;
				resolve();
			},
			onResponseError(_controller, error) {
				signal.removeEventListener("abort", onAbort);
				reject(error);
			},
		},
	);
	return promise;
}

function toHeaders(request: UpstreamRequest): Record<string, string> {
	const { endpoint, protocol, streams, headers } = request;
	const { hostname } = new URL(endpoint.baseUrl);
	return {
		...headers,
		"content-type": "application/json",
		accept: streams ? "text/event-stream" : "application/json",
		"accept-encoding": "identity",
		...(endpoint.apiKey === undefined ? {} : protocol.toCredentials(endpoint.apiKey, hostname)),
	};
}

/** The agent's headers that mean something to an engine or a router in front of it; never its key or our own. */
export function toForwarded(headers: IncomingHttpHeaders): Record<string, string> {
	const forwarded: Record<string, string> = {};
	for (const name of ["x-session-id", "x-session-affinity", "anthropic-version", "anthropic-beta"]) {
		const value = headers[name];
		if (typeof value === "string") forwarded[name] = value;
	}
	return forwarded;
}
