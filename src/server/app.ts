import { OpenAPIHono } from "@hono/zod-openapi";
import { bodyLimit } from "hono/body-limit";
import { HTTPException } from "hono/http-exception";
import { createLog, type Log } from "../log.ts";
import { excessOf, MESSAGE_LIMITS, parseInSteps } from "../model/measured-json.ts";
import type { Paddock } from "../paddock.ts";
import { type AccessPolicy, checkAccess } from "./access.ts";
import { mountAgents } from "./agent-routes.ts";
import { mountCommands } from "./command-routes.ts";
import { mountConsole } from "./console.ts";
import { mountConversations } from "./conversation-routes.ts";
import { mountCredentials } from "./credential-routes.ts";
import { docsPage } from "./docs.ts";
import { mountEvents } from "./event-routes.ts";
import { mountFiles } from "./file-routes.ts";
import { mountGroups } from "./group-routes.ts";
import { mountHosts } from "./host-routes.ts";
import type { HttpDoor } from "./http-door.ts";
import { mountHealth, mountMachine } from "./machine-routes.ts";
import { Metrics } from "./metrics.ts";
import { describeApp, type OpenApiDocument } from "./openapi.ts";
import { invalid, ProblemError, problemResponse, toErrorResponse, toProblem } from "./problem.ts";
import { mountRollouts } from "./rollout-routes.ts";
import { mountTrace } from "./trace-routes.ts";

export interface AppOptions {
	/** Default: the configured token, or loopback names only. */
	access?: AccessPolicy;
	log?: Log;
	metrics?: Metrics;
	maxBodyBytes?: number;
	keepAliveMs?: number;
	closing?: AbortSignal;
	/** Whatever would change something is refused. */
	isReadOnly?: boolean;
	/** Other doors mount their routes here; they stand behind the same access check. */
	extraRoutes?: (app: OpenAPIHono) => void;
}

const MAX_BODY_BYTES = 16 * 1024 * 1024;

/** The HTTP surface over one Paddock. */
export function createApp(paddock: Paddock, options: AppOptions = {}): OpenAPIHono {
	const log = options.log ?? createLog();
	const app = createGuarded(paddock, { ...options, log }, "see /docs");
	// They bring limits of their own, and refuse in their own shape.
	options.extraRoutes?.(app);
	limitBodies(app, options.maxBodyBytes ?? MAX_BODY_BYTES);
	if (options.isReadOnly) refuseChanges(app);

	const door: HttpDoor = {
		paddock,
		log,
		closing: options.closing ?? new AbortController().signal,
		keepAliveMs: options.keepAliveMs ?? 15_000,
		isReadOnly: options.isReadOnly ?? false,
		streams: new Set(),
		exports: new Set(),
	};
	mountRollouts(app, door);
	mountEvents(app, door);
	mountTrace(app, door);
	mountFiles(app, door);
	mountCommands(app, door);
	mountConversations(app, door);
	mountGroups(app, door);
	mountMachine(app, door);
	mountCredentials(app, door);
	mountHosts(app, door);
	mountAgents(app, door);
	mountDescriptions(app);
	mountConsole(app);
	return app;
}

/** What a worker shows of itself: that it lives, and its share of the metrics. */
export function createWorkerApp(paddock: Paddock, options: AppOptions): OpenAPIHono {
	const app = createGuarded(paddock, options, "a worker has /metrics and /api/v1/health");
	mountHealth(app);
	return app;
}

/** What every surface of ours has: access, logs, metrics, and errors in one shape. */
function createGuarded(paddock: Paddock, options: AppOptions, hint: string): OpenAPIHono {
	const { log = createLog(), metrics = new Metrics() } = options;
	const app = new OpenAPIHono({
		defaultHook: (result) => (result.success ? undefined : invalid(result.target, result.error)),
	});
	app.onError((error, context) => toErrorResponse(error, context, log));
	app.notFound((context) =>
		problemResponse(toProblem(404, "no_such_path", `there is nothing at ${context.req.path}; ${hint}`)),
	);
	note(app, metrics, log);
	guard(app, options.access ?? { token: paddock.config.token });
	app.get("/metrics", async () => {
		const text = await metrics.render(paddock);
		return new Response(text, { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } });
	});
	return app;
}

/** Every request leaves a line in the log and a count in the metrics. */
function note(app: OpenAPIHono, metrics: Metrics, log: Log): void {
	app.use("*", async (context, next) => {
		const startedAt = performance.now();
		await next();
		context.header("x-content-type-options", "nosniff");
		const { method, path } = context.req;
		const { status } = context.res;
		metrics.onRequest(method, status);
		log.info({ method, path, status, ms: Math.round(performance.now() - startedAt) }, "request");
	});
}

/** Nothing is reached without passing here, whoever mounted it. */
function guard(app: OpenAPIHono, policy: AccessPolicy): void {
	app.use("*", async (context, next) => {
		const refusal = checkAccess(
			{
				method: context.req.method,
				path: context.req.path,
				header: (name) =>
					context.req.header(name) ?? (name === "host" ? new URL(context.req.url).host : undefined),
			},
			policy,
		);
		if (!refusal) return await next();
		const { status, code, detail } = refusal;
		// The console asks for the token itself: a Basic challenge would make the browser pop up a window of its own.
		const isConsole = context.req.header("x-paddock-console") !== undefined;
		const challenge = isConsole ? "Bearer" : 'Basic realm="paddock", Bearer';
		const headers: Record<string, string> = status === 401 ? { "www-authenticate": challenge } : {};
		return problemResponse(toProblem(status, code, detail), headers);
	});
}

function refuseChanges(app: OpenAPIHono): void {
	app.use("*", async (context, next) => {
		if (["GET", "HEAD", "OPTIONS"].includes(context.req.method)) return await next();
		const detail = "this server only shows what was run; paddock serve runs and changes things";
		return problemResponse(toProblem(403, "read_only", detail));
	});
}

/** In bytes, and in what they would become: both before anybody parses them. */
function limitBodies(app: OpenAPIHono, maxSize: number): void {
	const onError = () => {
		throw new HTTPException(413);
	};
	app.use("*", bodyLimit({ maxSize, onError }));
	app.use("*", async (context, next) => {
		if (context.req.raw.body === null) return await next();
		const bytes = new Uint8Array(await context.req.arrayBuffer());
		const excess = excessOf(bytes, MESSAGE_LIMITS);
		if (excess !== null) throw new ProblemError(413, "body_too_large", `the body is ${excess}`);
		const parsed = await parseInSteps(bytes, { fatal: false }).catch(() => null);
		// What is no JSON is told so by the route it was meant for.
		if (parsed !== null) context.req.bodyCache.json = Promise.resolve(parsed);
		return await next();
	});
}

function mountDescriptions(app: OpenAPIHono): void {
	// Made when first asked for: by then every door has mounted its routes, and it is not cheap.
	let described: OpenApiDocument | undefined;
	const document = () => {
		described ??= describeApp(app);
		return described;
	};
	app.get("/openapi.json", (context) => context.json(document()));
	app.get("/docs", (context) => {
		context.header(
			"content-security-policy",
			"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'",
		);
		return context.html(docsPage(document()));
	});
}
