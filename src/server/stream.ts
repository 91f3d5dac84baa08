import type { Log } from "../log.ts";

const encoder = new TextEncoder();
const KEEP_ALIVE = encoder.encode(": keep-alive\n\n");

export interface StreamOptions {
	/** Ends the stream: the caller hung up, or the server is closing. */
	stop: AbortController;
	log: Log;
	keepAliveMs?: number;
}

/** Server-sent events, pulled only as fast as the caller reads; a comment now and then keeps proxies from cutting. */
export function sseResponse(
	events: AsyncIterable<{ id: number | string; data: unknown }>,
	options: StreamOptions,
): Response {
	const chunks = encode(events, ({ id, data }) => `id: ${id}\ndata: ${JSON.stringify(data)}\n\n`);
	const body = toBody(chunks, options, {
		opening: encoder.encode("retry: 1000\n\n"),
		keepAlive: KEEP_ALIVE,
		keepAliveMs: options.keepAliveMs ?? 15_000,
	});
	return new Response(body, {
		headers: {
			"content-type": "text/event-stream",
			"cache-control": "no-cache, no-transform",
			"x-accel-buffering": "no",
		},
	});
}

/** One JSON object per line. */
export function ndjsonResponse(items: AsyncIterable<unknown>, options: StreamOptions): Response {
	const body = toBody(
		encode(items, (item) => `${JSON.stringify(item)}\n`),
		options,
	);
	return new Response(body, { headers: { "content-type": "application/x-ndjson" } });
}

/** Bytes as they come. */
export function byteResponse(
	chunks: AsyncGenerator<Uint8Array>,
	options: StreamOptions,
	headers: Record<string, string>,
): Response {
	return new Response(toBody(chunks, options), { headers });
}

async function* encode<T>(items: AsyncIterable<T>, toText: (item: T) => string): AsyncGenerator<Uint8Array> {
	for await (const item of items) yield encoder.encode(toText(item));
}

interface KeepAlive {
	opening: Uint8Array;
	keepAlive: Uint8Array;
	keepAliveMs: number;
}

function toBody(
	chunks: AsyncGenerator<Uint8Array>,
	options: StreamOptions,
	alive?: KeepAlive,
): ReadableStream<Uint8Array> {
	let pending: Promise<IteratorResult<Uint8Array>> | null = null;
	const { stop, log } = options;
	return new ReadableStream<Uint8Array>(
		{
			start(controller) {
				if (alive) controller.enqueue(alive.opening);
			},
			async pull(controller) {
				try {
					pending ??= chunks.next();
					const next = alive ? await soonOr(pending, alive.keepAliveMs, alive.keepAlive) : await pending;
					if (next instanceof Uint8Array) return controller.enqueue(next);
					pending = null;
					if (!next.done) return controller.enqueue(next.value);
				} catch (error) {
					if (!stop.signal.aborted) log.error({ err: error }, "a stream broke off");
					stop.abort();
					// Who follows events comes back and goes on; a list that just ends would pass for a whole one.
					if (alive) controller.close();
					else controller.error(error);
					return;
				}
				stop.abort();
				controller.close();
			},
			async cancel() {
				stop.abort();
				await chunks.return(undefined);
			},
		},
		new ByteLengthQueuingStrategy({ highWaterMark: 64 * 1024 }),
	);
}

/** What `promise` gives, or `fallback` when that takes longer than `ms`. */
async function soonOr<T, F>(promise: Promise<T>, ms: number, fallback: F): Promise<T | F> {
	const { promise: late, resolve } = Promise.withResolvers<F>();
	const timer = setTimeout(() => resolve(fallback), ms);
	try {
		return await Promise.race([promise, late]);
	} finally {
		clearTimeout(timer);
	}
}
