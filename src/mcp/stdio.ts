import type { Readable, Writable } from "node:stream";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import type { Log } from "../log.ts";
import type { Paddock } from "../paddock.ts";
import { MAX_MESSAGE_BYTES } from "../tools/body.ts";
import { createMcpServer } from "./server.ts";

export interface StdioOptions {
	stdin?: Readable;
	stdout?: Writable;
	log?: Log;
	signal?: AbortSignal;
}

/** Serves one MCP client on stdin and stdout; resolves when it has gone. Nothing else may write to stdout. */
export async function runStdio(paddock: Paddock, options: StdioOptions = {}): Promise<void> {
	const stdin = options.stdin ?? process.stdin;
	const calls = new Set<Promise<unknown>>();
	const server = createMcpServer(paddock, { log: options.log, onCall: (call) => track(calls, call) });
	const closed = Promise.withResolvers<void>();
	server.onclose = () => closed.resolve();
	const close = () => void server.close();
	// The transport does not notice the end of its input, and a client that went away ends exactly there.
	stdin.once("end", close);
	stdin.once("close", close);
	options.signal?.addEventListener("abort", close, { once: true });
	await server.connect(
		new StdioServerTransport(stdin, options.stdout ?? process.stdout, { maxBufferSize: MAX_MESSAGE_BYTES }),
	);
	await closed.promise;
	await Promise.allSettled(calls);
}

function track(calls: Set<Promise<unknown>>, call: Promise<unknown>): void {
	calls.add(call);
	const forget = () => calls.delete(call);
	call.then(forget, forget);
}
