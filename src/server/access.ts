import { createHash, timingSafeEqual } from "node:crypto";
import { isIPv4 } from "node:net";
import { UsageError } from "../errors.ts";

export interface AccessPolicy {
	/** Null: open, and then only for callers that name this machine as loopback. */
	token: string | null;
}

/** What access is decided on; works for fetch requests and for raw upgrade requests alike. */
export interface Caller {
	method: string;
	path: string;
	header(name: string): string | undefined;
}

export type Refusal = { status: 401 | 403; code: string; detail: string };

/** Probes of containers cannot carry a token; these say nothing but that the server is up. */
const OPEN_PATHS = new Set(["/health", "/api/v1/health"]);

/** The console's files hold no data; the page itself asks for the token and sends it with its requests. */
function isOpen(path: string): boolean {
	return OPEN_PATHS.has(path) || path === "/" || path === "/web" || path.startsWith("/web/");
}

/** Shorter ones can be found by trying. */
const MIN_TOKEN = 8;

/** Refuses to listen beyond loopback without a token. */
export function requireTokenFor(host: string, token: string | null): void {
	if (isLoopbackName(host)) return;
	if (token !== null && token.length < MIN_TOKEN)
		throw new UsageError(
			`listening on ${host} needs a PADDOCK_TOKEN of at least ${MIN_TOKEN} characters`,
			"token_required",
		);
	if (token !== null) return;
	throw new UsageError(
		`listening on ${host} needs a token: set PADDOCK_TOKEN, or listen on 127.0.0.1`,
		"token_required",
	);
}

/** Null when the caller may pass. */
export function checkAccess(caller: Caller, policy: AccessPolicy): Refusal | null {
	return checkHost(caller, policy) ?? checkOrigin(caller) ?? checkToken(caller, policy);
}

/** Without a token, a page that made its own name point at this machine would get in: its Host gives it away. */
function checkHost(caller: Caller, policy: AccessPolicy): Refusal | null {
	if (policy.token !== null) return null;
	const host = caller.header("host");
	if (host !== undefined && isLoopbackName(hostnameOf(host))) return null;
	return {
		status: 403,
		code: "host_not_allowed",
		detail: "without a token this server answers only to loopback names such as 127.0.0.1 or localhost",
	};
}

/** Browsers say where a request comes from; only our own pages may act. Plain programs send neither header. */
function checkOrigin(caller: Caller): Refusal | null {
	const origin = caller.header("origin");
	if (origin !== undefined) {
		if (hostOfOrigin(origin) === caller.header("host")?.toLowerCase()) return null;
		return {
			status: 403,
			code: "origin_not_allowed",
			detail: "requests from pages of another origin are refused",
		};
	}
	const site = caller.header("sec-fetch-site");
	const isForeign = site === "cross-site" || site === "same-site";
	const isLink = caller.method === "GET" && caller.header("sec-fetch-mode") === "navigate";
	if (!isForeign || isLink) return null;
	return {
		status: 403,
		code: "origin_not_allowed",
		detail: "requests from pages of another site are refused",
	};
}

function checkToken(caller: Caller, policy: AccessPolicy): Refusal | null {
	if (policy.token === null) return null;
	if (isOpen(caller.path) && (caller.method === "GET" || caller.method === "HEAD")) return null;
	const given = tokenOf(caller.header("authorization"));
	if (given !== null && isSame(given, policy.token)) return null;
	return {
		status: 401,
		code: given === null ? "token_missing" : "token_wrong",
		detail: "send the token as `Authorization: Bearer …`, or as the password of Basic",
	};
}

/** OpenEnv's client can only send user:password in the URL, hence Basic; the user name does not matter. */
function tokenOf(authorization: string | undefined): string | null {
	const [, scheme, value] = /^(Bearer|Basic)\s+(\S+)\s*$/i.exec(authorization ?? "") ?? [];
	if (!scheme || !value) return null;
	if (scheme.toLowerCase() === "bearer") return value;
	const decoded = Buffer.from(value, "base64").toString("utf8");
	const colon = decoded.indexOf(":");
	return colon < 0 ? null : decoded.slice(colon + 1);
}

/** Hashed first, so that neither the length nor the first differing byte shows in the time taken. */
function isSame(given: string, expected: string): boolean {
	const digest = (text: string) => createHash("sha256").update(text).digest();
	return timingSafeEqual(digest(given), digest(expected));
}

export function isLoopbackName(name: string): boolean {
	const host = name.toLowerCase().replace(/^\[|\]$/g, "");
	if (host === "localhost" || host.endsWith(".localhost") || host === "::1") return true;
	return isIPv4(host) && host.startsWith("127.");
}

function hostnameOf(host: string): string {
	const bracketed = /^(\[[^\]]*\])(:\d+)?$/.exec(host);
	if (bracketed) return bracketed[1] ?? "";
	return host.replace(/:\d+$/, "");
}

function hostOfOrigin(origin: string): string | null {
	return URL.canParse(origin) ? new URL(origin).host : null;
}
