import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import { bodyLimit } from "hono/body-limit";
import { HTTPException } from "hono/http-exception";
import { createLog, type Log } from "../log.ts";
import type { Paddock } from "../paddock.ts";
import { type AccessPolicy, checkAccess } from "./access.ts";
import { Admission } from "./admission.ts";
import { mountCommands } from "./command-routes.ts";
import { docsPage } from "./docs.ts";
import type { Door } from "./door.ts";
import { mountEvents } from "./event-routes.ts";
import { mountFiles } from "./file-routes.ts";
import { mountGroups } from "./group-routes.ts";
import { mountMachine } from "./machine-routes.ts";
import { Metrics } from "./metrics.ts";
import { describeApp, type OpenApiDocument } from "./openapi.ts";
import { invalid, problemResponse, toErrorResponse, toProblem } from "./problem.ts";
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
	/** Other doors mount their routes here; they stand behind the same access check. */
	extraRoutes?: (app: OpenAPIHono) => void;
}

const MAX_BODY_BYTES = 16 * 1024 * 1024;

/** The HTTP surface over one Paddock. */
export function createApp(paddock: Paddock, options: AppOptions = {}): OpenAPIHono {
	const log = options.log ?? createLog();
	const metrics = options.metrics ?? new Metrics();
	const app = new OpenAPIHono({
		defaultHook: (result) => (result.success ? undefined : invalid(result.target, result.error)),
	});
	app.onError((error, context) => toErrorResponse(error, context, log));
	app.notFound((context) =>
		problemResponse(toProblem(404, "no_such_path", `there is nothing at ${context.req.path}; see /docs`)),
	);

	app.use("*", async (context, next) => {
		const startedAt = performance.now();
		await next();
		context.header("x-content-type-options", "nosniff");
		const status = context.res.status;
		const ms = Math.round(performance.now() - startedAt);
		metrics.onRequest(context.req.method, status);
		log.info({ method: context.req.method, path: context.req.path, status, ms }, "request");
	});
	guard(app, options.access ?? { token: paddock.config.token });
	app.use(
		"*",
		bodyLimit({
			maxSize: options.maxBodyBytes ?? MAX_BODY_BYTES,
			onError: () => {
				throw new HTTPException(413);
			},
		}),
	);

	const door: Door = {
		paddock,
		log,
		admission: new Admission(paddock, paddock.config.queueLimit),
		closing: options.closing ?? new AbortController().signal,
		keepAliveMs: options.keepAliveMs ?? 15_000,
	};
	mountRollouts(app, door);
	mountEvents(app, door);
	mountTrace(app, door);
	mountFiles(app, door);
	mountCommands(app, door);
	mountGroups(app, door);
	mountMachine(app, door);
	options.extraRoutes?.(app);

	// Made when first asked for: by then every door has mounted its routes, and it is not cheap.
	let described: OpenApiDocument | undefined;
	const document = () => {
		described ??= describeApp(app);
		return described;
	};
	app.get("/openapi.json", (context) => context.json(document()));
	app.get("/docs", (context) => docs(context, document()));
	app.get("/metrics", async () => {
		const text = await metrics.render(paddock);
		return new Response(text, { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } });
	});
	return app;
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
		const headers: Record<string, string> =
			status === 401 ? { "www-authenticate": 'Basic realm="paddock", Bearer' } : {};
		return problemResponse(toProblem(status, code, detail), headers);
	});
}

function docs(context: Context, document: OpenApiDocument): Response {
	context.header("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'");
	return context.html(docsPage(document)) as Response;
}
