import type { OpenAPIHono } from "@hono/zod-openapi";
import { Problem } from "../../src/api/problem.ts";
import { type Client, createClient } from "../../src/client/client.ts";

/** The real client, wired to the app without a port. */
export function clientOf(app: OpenAPIHono, token?: string): Client {
	const fetch = async (url: string, init: RequestInit) => await app.request(url, init);
	return createClient({ baseUrl: "http://localhost", token, fetch });
}

export async function postJson(
	app: OpenAPIHono,
	path: string,
	body: unknown,
	headers: Record<string, string> = {},
): Promise<Response> {
	return await app.request(path, {
		method: "POST",
		headers: { "content-type": "application/json", ...headers },
		body: typeof body === "string" ? body : JSON.stringify(body),
	});
}

/** Fails unless the answer is a problem document. */
export async function problemOf(response: Response | Promise<Response>): Promise<Problem> {
	const { status, headers, body } = await response;
	if (headers.get("content-type") !== "application/problem+json")
		throw new Error(`HTTP ${status} is no problem document: ${await new Response(body).text()}`);
	const problem = Problem.parse(await new Response(body).json());
	if (problem.status !== status) throw new Error(`HTTP ${status} says ${problem.status} inside`);
	return problem;
}

/** The smallest request there is. */
export function request(overrides: { id?: string; labels?: Record<string, string>; n?: number } = {}) {
	const { id = "echo", ...rest } = overrides;
	return {
		task: { id, instruction: "say hello" },
		endpoint: { type: "policy" as const, policy: "noop" },
		...rest,
	};
}
