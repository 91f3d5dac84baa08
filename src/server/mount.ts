import { createRoute, type OpenAPIHono, type RouteConfig, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { Problem } from "../api/problem.ts";
import type { Body, Headers, Params, Query, Reply, Route } from "../api/route.ts";
import { ProblemError } from "./problem.ts";

interface Call<R extends Route> {
	params: Params<R>;
	query: Query<R>;
	headers: Headers<R>;
	body: Body<R>;
	/** Fires when the caller hangs up. */
	signal: AbortSignal;
	accepts(mediaType: string): boolean;
}

type Handler<R extends Route> = (call: Call<R>) => Promise<Reply<R> | Response>;

/** Puts a handler behind a route value: validated input in, reply or a ready Response out. */
export function mount<R extends Route>(app: OpenAPIHono, route: R, handle: Handler<R>): void {
	const known = new Set(Object.keys(route.query?.shape ?? {}));
	app.openapi(toOpenApiRoute(route), async (context) => {
		refuseUnknown(Object.keys(context.req.query()), known);
		const call = {
			params: route.params ? validated(context, "param") : {},
			query: route.query ? validated(context, "query") : {},
			headers: route.headers ? validated(context, "header") : {},
			body: route.body ? validated(context, "json") : undefined,
			signal: context.req.raw.signal,
			accepts: (mediaType: string) => context.req.header("accept")?.includes(mediaType) ?? false,
		} as Call<R>;
		const reply = await handle(call);
		if (reply instanceof Response) return reply;
		return context.json(reply as object, route.status ?? 200);
	});
}

function validated(context: Context, target: "json" | "query" | "param" | "header"): unknown {
	return context.req.valid(target as never);
}

/** A misspelt filter would pass for none, and its caller take everything for what was asked for. */
function refuseUnknown(given: string[], known: ReadonlySet<string>): void {
	const unknown = given.find((name) => !known.has(name));
	if (unknown === undefined) return;
	const hint = known.size === 0 ? "there are none here" : `known are ${[...known].join(", ")}`;
	const detail = `query.${unknown.slice(0, 100)}: unknown parameter; ${hint}`;
	throw new ProblemError(422, "invalid_request", detail);
}

/** What can happen to any request, whatever it asks for. */
const ALWAYS = {
	401: "A token is required",
	403: "The Host or Origin is not allowed",
	422: "The request does not fit its schema",
	500: "A bug on our side",
	503: "The store does not answer; Retry-After says when to come back",
};
const WITH_BODY = {
	400: "The body is not JSON, or what it asks for cannot be",
	413: "The body is too large",
	415: "The body is not application/json",
};

const problemContent = { "application/problem+json": { schema: Problem } };

export function toOpenApiRoute(route: Route): RouteConfig {
	const content = {
		...(route.reply ? { "application/json": { schema: route.reply } } : {}),
		...Object.fromEntries(
			Object.entries(route.media ?? {}).map(([type, description]) => [
				type,
				{ schema: z.string().describe(description) },
			]),
		),
	};
	const refusals = { ...ALWAYS, ...(route.body ? WITH_BODY : {}), ...route.refusals };
	return createRoute({
		operationId: route.name,
		method: route.method,
		path: route.path,
		tags: [route.tag],
		summary: route.summary,
		request: {
			...(route.params ? { params: route.params } : {}),
			...(route.query ? { query: route.query } : {}),
			...(route.headers ? { headers: route.headers } : {}),
			...(route.body
				? { body: { required: true, content: { "application/json": { schema: route.body } } } }
				: {}),
		},
		responses: {
			[route.status ?? 200]: { description: "Done", content },
			...(route.empty ? { 204: { description: route.empty } } : {}),
			...Object.fromEntries(
				Object.entries(refusals).map(([status, description]) => [
					status,
					{ description, content: problemContent },
				]),
			),
		},
	});
}
