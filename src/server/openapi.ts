import { OpenAPIHono } from "@hono/zod-openapi";
import { routes } from "../api/api.ts";
import { VERSION } from "../version.ts";
import { toOpenApiRoute } from "./mount.ts";

export type OpenApiDocument = ReturnType<OpenAPIHono["getOpenAPI31Document"]>;

const INFO = {
	openapi: "3.1.0",
	info: {
		title: "Paddock",
		version: VERSION,
		description:
			"Runs the OpenCode coding agent on tasks, in sandboxes, against any model; hands back the reward, the exact tokens, the transcript and the files.",
	},
};

/** The document of all routes that `app` has, other doors' included. */
export function describeApp(app: OpenAPIHono): OpenApiDocument {
	return app.getOpenAPI31Document(INFO);
}

/** The document of our own contract alone; needs nothing running. */
export function describeContract(): OpenApiDocument {
	const app = new OpenAPIHono();
	for (const route of routes) app.openAPIRegistry.registerPath(toOpenApiRoute(route));
	return describeApp(app);
}
