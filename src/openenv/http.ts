import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { z } from "zod";
import type { Log } from "../log.ts";
import type { Paddock } from "../paddock.ts";
import { type Body, readBody } from "../tools/body.ts";
import { openToolbox, toJsonSchema } from "../tools/toolbox.ts";
import { VERSION } from "../version.ts";
import type { Environment } from "./environment.ts";
import { CallToolAction, Observation, parseAction, ResetBody, State, StepBody } from "./frames.ts";
import { registerPaths } from "./openapi.ts";
import { EnvironmentPool } from "./pool.ts";
import { parseError, Rpc, rpcError } from "./rpc.ts";
import { type OpenEnvSettings, readOpenEnvSettings } from "./settings.ts";
import type { SocketDoor } from "./socket.ts";
import { toComplaints } from "./validation.ts";

export interface OpenEnvDoor extends SocketDoor, Disposable {
	readonly settings: OpenEnvSettings;
}

const METADATA = {
	name: "paddock",
	description:
		"Runs the OpenCode coding agent on tasks in sandboxes, verifies in a clean box, and returns reward, exact tokens, transcript and files.",
	readme_content: null,
	version: VERSION,
	author: null,
	documentation_url: null,
};

const SCHEMA = {
	action: { title: "CallToolAction", ...toJsonSchema(CallToolAction) },
	observation: { title: "CallToolObservation", ...toJsonSchema(Observation) },
	state: { title: "State", ...toJsonSchema(State) },
};

/** What all of OpenEnv's surfaces share: the tools, and who holds an environment. */
export function openOpenEnv(paddock: Paddock, options: { log?: Log | undefined } = {}): OpenEnvDoor {
	const { log } = options;
	const settings = readOpenEnvSettings(paddock.config);
	const tools = openToolbox(paddock);
	const pool = new EnvironmentPool(tools, settings, log);
	return { settings, pool, rpc: new Rpc(tools, pool), log, [Symbol.dispose]: () => pool[Symbol.dispose]() };
}

/** OpenEnv's HTTP routes. Each request has its own environment, thrown away with the answer. */
export function mountOpenEnv(app: OpenAPIHono, { pool }: OpenEnvDoor): void {
	app.get("/health", (context) => context.json({ status: "healthy" }));
	app.get("/metadata", (context) => context.json(METADATA));
	app.get("/schema", (context) => context.json(SCHEMA));
	app.get("/state", (context) => {
		const { episode_id, step_count } = pool.throwAway().state();
		return context.json({ episode_id, step_count });
	});
	app.post("/reset", (context) => reset(context, pool.throwAway()));
	app.post("/step", (context) => step(context, pool.throwAway()));
	for (const path of ["/health", "/metadata", "/schema", "/state", "/reset", "/step"])
		app.all(path, (context) => context.json({ detail: "Method Not Allowed" }, 405));
	registerPaths(app);
}

async function reset(context: Context, environment: Environment): Promise<Response> {
	const body = await readBody(context.req.raw);
	const refusal = refuseUnreadable(context, body);
	if (refusal !== null) return refusal;
	const parsed = ResetBody.safeParse(body.value ?? {}, { reportInput: true });
	if (!parsed.success) return unprocessable(context, parsed.error, ["body"]);
	return context.json(environment.reset(parsed.data));
}

async function step(context: Context, environment: Environment): Promise<Response> {
	const request = context.req.raw;
	const body = await readBody(request);
	const refusal = refuseUnreadable(context, body);
	if (refusal !== null) return refusal;
	const parsed = StepBody.safeParse(body.value, { reportInput: true });
	if (!parsed.success) return unprocessable(context, parsed.error, ["body"]);
	const action = parseAction(parsed.data.action);
	if (!action.success) return unprocessable(context, action.error, []);
	if (action.data.type === "list_tools") return context.json(environment.listTools());
	const { tool_name, arguments: value } = action.data;
	const timeoutS = parsed.data.timeout_s ?? undefined;
	return whileHeard(request.signal, async () => {
		const origin = new URL(request.url).origin;
		return context.json(
			await environment.step(tool_name, value, { signal: request.signal, origin, timeoutS }),
		);
	});
}

/** A caller that hung up is no error; what it is told does not matter. */
async function whileHeard(signal: AbortSignal, answer: () => Promise<Response>): Promise<Response> {
	try {
		return await answer();
	} catch (error) {
		if (signal.aborted) return new Response(null, { status: 499 });
		throw error;
	}
}

function refuseUnreadable(context: Context, body: Body): Response | null {
	if (body.type === "too-large") return context.json({ detail: body.message }, 413);
	if (body.type !== "unreadable") return null;
	const complaint = { type: "json_invalid", loc: ["body", 0], msg: "JSON decode error", input: {} };
	return context.json({ detail: [complaint] }, 422);
}

function unprocessable(context: Context, error: z.ZodError, prefix: string[]): Response {
	return context.json({ detail: toComplaints(error, prefix) }, 422);
}

/** OpenEnv's JSON-RPC over POST /mcp, always answered with HTTP 200. */
export async function answerBareRpc(
	{ rpc }: OpenEnvDoor,
	body: Body,
	request: { signal: AbortSignal; origin: string },
): Promise<Response> {
	if (body.type === "too-large") return Response.json(rpcError(null, -32600, body.message));
	if (body.type !== "json" || Array.isArray(body.value)) return Response.json(parseError());
	return whileHeard(request.signal, async () => {
		const reply = await rpc.answer(body.value, { own: null, ...request });
		return reply === null ? new Response(null, { status: 202 }) : Response.json(reply);
	});
}
