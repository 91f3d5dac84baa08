import type { OpenAPIHono } from "@hono/zod-openapi";
import { z } from "zod";
import { Observation, ResetBody, State, StepBody, StepReply } from "./frames.ts";

const json = (schema: z.ZodType) => ({ "application/json": { schema } });
const rpc = z.record(z.string(), z.unknown()).describe("JSON-RPC 2.0");

const PATHS = [
	{
		path: "/health",
		method: "get",
		summary: "Whether the server is up",
		reply: z.object({ status: z.string() }),
	},
	{
		path: "/metadata",
		method: "get",
		summary: "What this environment is",
		reply: z.looseObject({ name: z.string(), description: z.string(), version: z.string() }),
	},
	{
		path: "/schema",
		method: "get",
		summary: "JSON Schemas of action, observation and state",
		reply: z.record(z.string(), z.unknown()),
	},
	{ path: "/state", method: "get", summary: "A fresh environment's state", reply: State },
	{ path: "/reset", method: "post", summary: "Begin an episode", body: ResetBody, reply: StepReply },
	{
		path: "/step",
		method: "post",
		summary: "Call a tool; timeout_s gives up on it",
		body: StepBody,
		reply: StepReply.extend({ observation: Observation }),
	},
	{
		path: "/mcp",
		method: "post",
		summary: "MCP over streamable HTTP, and OpenEnv's JSON-RPC for callers that take no event stream",
		body: rpc,
		reply: rpc,
	},
] as const;

/** Makes OpenEnv's routes appear in the app's OpenAPI document. */
export function registerPaths(app: OpenAPIHono): void {
	for (const { path, method, summary, reply, ...rest } of PATHS)
		app.openAPIRegistry.registerPath({
			path,
			method,
			summary,
			tags: ["openenv"],
			...("body" in rest ? { request: { body: { content: json(rest.body) } } } : {}),
			responses: { 200: { description: "Done", content: json(reply) } },
		});
}
