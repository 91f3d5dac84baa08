import { Problem } from "../api/problem.ts";
import type { BodyInput, Headers, Params, Query, Reply, Route } from "../api/route.ts";

/** Any function that fetches: the platform's, or an app's own `request` in tests. */
type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface ClientOptions {
	/** Where the server answers, e.g. http://127.0.0.1:8000 */
	baseUrl: string;
	token?: string | null | undefined;
	fetch?: Fetch;
}

/** The server's answer was a problem document: `code` is stable, the message is for people. */
export class ApiError extends Error {
	override readonly name = "ApiError";
	readonly status: number;
	readonly code: string;
	/** What the server asked us to wait before the next try. */
	readonly retryAfterS: number | null;

	constructor(status: number, code: string, message: string, retryAfterS: number | null = null) {
		super(message);
		this.status = status;
		this.code = code;
		this.retryAfterS = retryAfterS;
	}
}

/** Every field may be left out, also by saying undefined. */
export type Loose<T> = { [K in keyof T]?: T[K] | undefined };

/** Only what the route declares can be said. */
export interface Input<R extends Route> {
	params?: Params<R>;
	query?: Loose<Query<R>>;
	headers?: Partial<Headers<R>>;
	body?: BodyInput<R>;
	signal?: AbortSignal | undefined;
	/** For routes that answer in several media types. */
	accept?: string;
}

/** Calls a route and reads its JSON reply. */
export async function callRoute<R extends Route>(
	options: ClientOptions,
	route: R,
	input: Input<R> = {},
): Promise<Reply<R>> {
	const response = await openRoute(options, route, input);
	return (await response.json()) as Reply<R>;
}

/** Calls a route; whatever is not a success is thrown. */
export async function openRoute<R extends Route>(
	options: ClientOptions,
	route: R,
	input: Input<R> = {},
): Promise<Response> {
	const send = options.fetch ?? ((url, init) => fetch(url, init));
	const response = await send(urlOf(options.baseUrl, route, input), {
		method: route.method.toUpperCase(),
		// The body may hold a key, which is for this server alone.
		redirect: "manual",
		headers: headersOf(options, input),
		...(input.body === undefined ? {} : { body: JSON.stringify(input.body) }),
		...(input.signal ? { signal: input.signal } : {}),
	});
	if (response.ok) return response;
	throw await toApiError(response);
}

function urlOf<R extends Route>(baseUrl: string, route: R, input: Input<R>): string {
	const params = (input.params ?? {}) as Record<string, string>;
	const path = route.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
	const query = new URLSearchParams();
	for (const [name, value] of Object.entries(input.query ?? {})) {
		if (value !== undefined) query.set(name, String(value));
	}
	const suffix = query.size > 0 ? `?${query}` : "";
	return `${baseUrl.replace(/\/+$/, "")}${path}${suffix}`;
}

function headersOf<R extends Route>(options: ClientOptions, input: Input<R>): Record<string, string> {
	const given = Object.entries(input.headers ?? {}).flatMap(([name, value]) =>
		value === undefined ? [] : [[name, String(value)]],
	);
	return {
		accept: input.accept ?? "application/json",
		...(input.body === undefined ? {} : { "content-type": "application/json" }),
		...(options.token ? { authorization: `Bearer ${options.token}` } : {}),
		...Object.fromEntries(given),
	};
}

async function toApiError(response: Response): Promise<ApiError> {
	const text = await response.text();
	const problem = Problem.safeParse(parseJson(text));
	const retryAfterS = toSeconds(response.headers.get("retry-after"));
	if (problem.success)
		return new ApiError(response.status, problem.data.code, problem.data.detail, retryAfterS);
	return new ApiError(
		response.status,
		"not_paddock",
		`HTTP ${response.status}: ${text.slice(0, 200)}`,
		retryAfterS,
	);
}

/** Retry-After is a number of seconds or a date. */
function toSeconds(retryAfter: string | null): number | null {
	if (retryAfter === null) return null;
	const seconds = /^\s*\d+\s*$/.test(retryAfter)
		? Number(retryAfter)
		: (Date.parse(retryAfter) - Date.now()) / 1000;
	return seconds > 0 ? seconds : null;
}

function parseJson(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return null;
	}
}
