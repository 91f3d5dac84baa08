import { describe, expect, test } from "vitest";
import { checkAccess, isLoopbackName, requireTokenFor } from "../../src/server/access.ts";
import { createApp } from "../../src/server/app.ts";
import { openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { problemOf } from "./caller.ts";

const TOKEN = "a-token-that-is-long-enough";
const basic = (password: string) => `Basic ${Buffer.from(`anyone:${password}`).toString("base64")}`;

function decide(
	token: string | null,
	headers: Record<string, string>,
	{ method = "POST", path = "/api/v1/rollouts" } = {},
) {
	const refusal = checkAccess({ method, path, header: (name) => headers[name] }, { token });
	return refusal?.code ?? "passes";
}

describe("without a token", () => {
	test.each([
		["127.0.0.1:8000", "passes"],
		["localhost", "passes"],
		["LOCALHOST:9", "passes"],
		["[::1]:8000", "passes"],
		["app.localhost:8000", "passes"],
		["127.9.9.9", "passes"],
		["evil.example:8000", "host_not_allowed"],
		["127.0.0.1.evil.example", "host_not_allowed"],
		["localhost.evil.example", "host_not_allowed"],
		["192.168.0.4:8000", "host_not_allowed"],
		["[::ffff:127.0.0.1]", "host_not_allowed"],
		["", "host_not_allowed"],
	])("the Host %s %s", (host, expected) => {
		expect(decide(null, { host })).toBe(expected);
	});

	test("no Host at all is refused", () => {
		expect(decide(null, {})).toBe("host_not_allowed");
	});

	test.each([
		["http://127.0.0.1:8000", "passes"],
		["http://127.0.0.1:3000", "origin_not_allowed"],
		["https://evil.example", "origin_not_allowed"],
		["null", "origin_not_allowed"],
		["", "origin_not_allowed"],
	])("a page of %j %s", (origin, expected) => {
		expect(decide(null, { host: "127.0.0.1:8000", origin })).toBe(expected);
	});

	test("a name that was made to point here does not get in, though Host and Origin agree", () => {
		expect(decide(null, { host: "evil.example:8000", origin: "http://evil.example:8000" })).toBe(
			"host_not_allowed",
		);
	});

	test("another site may link here, and do nothing else", () => {
		const foreign = { host: "localhost", "sec-fetch-site": "cross-site" };
		const link = { ...foreign, "sec-fetch-mode": "navigate" };
		expect(decide(null, link, { method: "GET", path: "/web" })).toBe("passes");
		expect(decide(null, link, { method: "POST" })).toBe("origin_not_allowed");
		expect(decide(null, { ...foreign, "sec-fetch-mode": "no-cors" }, { method: "GET" })).toBe(
			"origin_not_allowed",
		);
	});
});

describe("with a token", () => {
	const host = "paddock.internal:8000";

	test.each([
		[`Bearer ${TOKEN}`, "passes"],
		[`bearer ${TOKEN}`, "passes"],
		[basic(TOKEN), "passes"],
		[`Bearer ${TOKEN}x`, "token_wrong"],
		[`Bearer ${TOKEN.slice(1)}`, "token_wrong"],
		[basic("wrong"), "token_wrong"],
		["Bearer", "token_missing"],
		[TOKEN, "token_missing"],
		[`Basic ${Buffer.from(TOKEN).toString("base64")}`, "token_missing"],
	])("Authorization %s %s", (authorization, expected) => {
		expect(decide(TOKEN, { host, authorization })).toBe(expected);
	});

	test("only the health probes and the console's files pass without it, and only to be read", () => {
		expect(decide(TOKEN, { host }, { method: "GET", path: "/health" })).toBe("passes");
		expect(decide(TOKEN, { host }, { method: "GET", path: "/api/v1/health" })).toBe("passes");
		for (const path of ["/", "/web", "/web/rollouts/ro_1"])
			expect(decide(TOKEN, { host }, { method: "GET", path })).toBe("passes");
		for (const path of ["/health", "/web/"])
			expect(decide(TOKEN, { host }, { method: "POST", path })).toBe("token_missing");
		for (const path of ["/docs", "/metrics", "/openapi.json", "/mcp", "/ws", "/website"])
			expect(decide(TOKEN, { host }, { method: "GET", path })).toBe("token_missing");
	});

	test("a page of another origin is refused even with the token", () => {
		const headers = { host, origin: "https://evil.example", authorization: basic(TOKEN) };
		expect(decide(TOKEN, headers)).toBe("origin_not_allowed");
	});

	test("the answer asks for Basic, so that a browser shows its prompt", async () => {
		await using paddock = await openIdlePaddock({ token: TOKEN });
		const response = await createApp(paddock).request("/api/v1/rollouts");
		expect(response.headers.get("www-authenticate")).toContain("Basic");
		expect(await problemOf(response)).toMatchObject({ status: 401, code: "token_missing" });
	});
});

test.each(["0.0.0.0", "::", "192.168.1.2", "example.com"])("listening on %s needs a token", (host) => {
	expect(() => requireTokenFor(host, null)).toThrow(/PADDOCK_TOKEN/);
	expect(() => requireTokenFor(host, TOKEN)).not.toThrow();
	expect(() => requireTokenFor(host, "guess")).toThrow(/at least 8/);
	expect(isLoopbackName(host)).toBe(false);
});
