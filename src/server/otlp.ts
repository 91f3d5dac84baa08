import type { Log } from "../log.ts";
import { VERSION } from "../version.ts";
import { type Exporter, type Span, Telemetry } from "./telemetry.ts";

const POST_TIMEOUT_MS = 10_000;
/** A collector that is down must not make us grow. */
const MAX_POSTS_IN_FLIGHT = 16;

/** Spans for the OpenTelemetry collector that the standard variables name; null when they name none. */
export function openTelemetry(env: Record<string, string | undefined>, log: Log): Telemetry | null {
	const exporter = openOtlp(env, log);
	return exporter && new Telemetry(exporter);
}

/** Sends spans as OTLP/HTTP JSON. */
export function openOtlp(env: Record<string, string | undefined>, log: Log): OtlpExporter | null {
	const base = env.OTEL_EXPORTER_OTLP_ENDPOINT?.replace(/\/+$/, "");
	const url = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? (base ? `${base}/v1/traces` : null);
	if (!url) return null;
	const headers = parseHeaders(env.OTEL_EXPORTER_OTLP_HEADERS ?? "");
	return new OtlpExporter(url, headers, env.OTEL_SERVICE_NAME ?? "paddock", log);
}

export class OtlpExporter implements Exporter {
	readonly #url: string;
	readonly #headers: Record<string, string>;
	readonly #service: string;
	readonly #log: Log;
	readonly #inFlight = new Set<Promise<void>>();

	constructor(url: string, headers: Record<string, string>, service: string, log: Log) {
		this.#url = url;
		this.#headers = headers;
		this.#service = service;
		this.#log = log;
	}

	send(spans: Span[]): void {
		if (spans.length === 0) return;
		if (this.#inFlight.size >= MAX_POSTS_IN_FLIGHT) {
			this.#log.warn({ spans: spans.length }, "the collector is too slow; spans dropped");
			return;
		}
		const post = this.#post(spans).finally(() => this.#inFlight.delete(post));
		this.#inFlight.add(post);
	}

	/** Waits for what is on its way. */
	async [Symbol.asyncDispose](): Promise<void> {
		await Promise.all(this.#inFlight);
	}

	async #post(spans: Span[]): Promise<void> {
		try {
			const response = await fetch(this.#url, {
				method: "POST",
				// The headers may hold a key, which is for this collector alone.
				redirect: "manual",
				headers: { ...this.#headers, "content-type": "application/json" },
				body: JSON.stringify(toOtlp(spans, this.#service)),
				signal: AbortSignal.timeout(POST_TIMEOUT_MS),
			});
			await response.body?.cancel();
			if (!response.ok) this.#log.warn({ status: response.status }, "the collector refused spans");
		} catch (error) {
			this.#log.warn({ err: error }, "the collector cannot be reached; spans dropped");
		}
	}
}

function toOtlp(spans: Span[], service: string) {
	return {
		resourceSpans: [
			{
				resource: { attributes: toAttributes({ "service.name": service }) },
				scopeSpans: [{ scope: { name: "paddock", version: VERSION }, spans: spans.map(toOtlpSpan) }],
			},
		],
	};
}

function toOtlpSpan(span: Span) {
	const { traceId, spanId, parentSpanId, name, failure } = span;
	return {
		traceId,
		spanId,
		...(parentSpanId ? { parentSpanId } : {}),
		name,
		kind: 1,
		startTimeUnixNano: toNanos(span.startMs),
		endTimeUnixNano: toNanos(span.endMs),
		attributes: toAttributes(span.attributes),
		status: failure ? { code: 2, message: `${failure.boundary}: ${failure.code}` } : {},
	};
}

function toNanos(ms: number): string {
	return String(BigInt(Math.round(ms * 1000)) * 1000n);
}

function toAttributes(attributes: Span["attributes"]) {
	return Object.entries(attributes).flatMap(([key, value]) =>
		value === null ? [] : [{ key, value: toValue(value) }],
	);
}

function toValue(value: string | number | boolean) {
	if (typeof value === "string") return { stringValue: value };
	if (typeof value === "boolean") return { boolValue: value };
	return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** `name=value,name=value`, percent-encoded. */
function parseHeaders(text: string): Record<string, string> {
	const pairs = text.split(",").flatMap((pair) => {
		const equals = pair.indexOf("=");
		return equals < 1
			? []
			: [[pair.slice(0, equals).trim(), decodeURIComponent(pair.slice(equals + 1).trim())]];
	});
	return Object.fromEntries(pairs) as Record<string, string>;
}
