import { z } from "zod";

/**
 * One operation of the HTTP contract, as plain data. The server wraps it, the client calls it, the OpenAPI document is
 * printed from it. JSON is spelled as it is stored (camelCase); query parameters are snake_case.
 */
export interface Route {
	/** The operation id; also its name in the client. */
	readonly name: string;
	readonly method: "get" | "post" | "put" | "patch" | "delete";
	/** With `{placeholders}` for `params`. */
	readonly path: string;
	readonly tag: string;
	readonly summary: string;
	readonly params?: z.ZodObject;
	readonly query?: z.ZodObject;
	readonly headers?: z.ZodObject;
	readonly body?: z.ZodType;
	/** The JSON reply. */
	readonly reply?: z.ZodType;
	readonly status?: 200 | 201;
	/** When there is nothing to answer with: why 204. */
	readonly empty?: string;
	/** Other media types this operation can answer with, and what one piece of them is. */
	readonly media?: Readonly<Record<string, string>>;
	/** 4xx codes worth naming, besides those that any request may get. */
	readonly refusals?: Readonly<Record<number, string>>;
}

/** Keeps the literal types, so that server and client can infer from the value. */
export function route<const R extends Route>(value: R): R {
	return value;
}

export type Params<R extends Route> = R["params"] extends z.ZodObject ? z.output<R["params"]> : object;
export type Query<R extends Route> = R["query"] extends z.ZodObject ? z.output<R["query"]> : object;
export type Headers<R extends Route> = R["headers"] extends z.ZodObject ? z.output<R["headers"]> : object;
export type Body<R extends Route> = R["body"] extends z.ZodType ? z.output<R["body"]> : undefined;
export type BodyInput<R extends Route> = R["body"] extends z.ZodType ? z.input<R["body"]> : undefined;
export type Reply<R extends Route> = R["reply"] extends z.ZodType ? z.output<R["reply"]> : undefined;

export const API = "/api/v1";

/** What an id may look like; anything else cannot be one of ours. */
export const Id = z
	.string()
	.max(120)
	.regex(/^[A-Za-z0-9][A-Za-z0-9_-]*$/);

export const IdParams = z.object({ id: Id });

/** A whole number in a query string. */
export function whole(min: number, max: number, fallback: number) {
	return z.coerce.number().int().min(min).max(max).default(fallback);
}

export const PageQuery = z.object({
	cursor: z.string().max(500).optional().describe("`next` of the page before"),
	limit: whole(1, 500, 50),
});

export function pageOf<T extends z.ZodType>(item: T) {
	return z.object({
		items: z.array(item),
		next: z.string().nullable().describe("Hand it back as `cursor`; null at the end"),
	});
}
