import { readFile } from "node:fs/promises";
import type { OpenAPIHono } from "@hono/zod-openapi";

/** Where `npm run console` leaves the built page. */
const BUILT = new URL("../../dist/web/", import.meta.url);

/** It talks to this server and nobody else, and runs no script but its own. */
const POLICY = [
	"default-src 'none'",
	"script-src 'self'",
	"style-src 'self'",
	"img-src 'self'",
	"connect-src 'self'",
	...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join("; ");

const TYPES: Record<string, string> = {
	html: "text/html; charset=utf-8",
	js: "text/javascript; charset=utf-8",
	css: "text/css; charset=utf-8",
	svg: "image/svg+xml",
};

/**
 * The console: static files that hold no data, so they are open. Every address below /web that is no file is the page
 * itself, which reads its address.
 */
export function mountConsole(app: OpenAPIHono, folder: URL = BUILT): void {
	app.get("/", (context) => context.redirect("/web/"));
	app.get("/web", (context) => context.redirect("/web/"));
	app.get("/web/*", async (context) => {
		const path = context.req.path.slice("/web/".length);
		const file = /^(assets\/)?[\w.-]+\.(js|css|svg)$/.test(path) ? await read(new URL(path, folder)) : null;
		if (file !== null) return answer(file, path, path.startsWith("assets/"));
		if (path.startsWith("assets/")) return context.notFound();
		const page = await read(new URL("index.html", folder));
		return page === null ? context.html(NOT_BUILT, 503) : answer(page, "index.html", false);
	});
}

function answer(content: Uint8Array<ArrayBuffer>, path: string, isForever: boolean): Response {
	return new Response(content, {
		headers: {
			"content-type": TYPES[path.split(".").at(-1) ?? ""] ?? "application/octet-stream",
			"content-security-policy": POLICY,
			"referrer-policy": "no-referrer",
			// Built files bear the hash of their content in their names.
			"cache-control": isForever ? "public, max-age=31536000, immutable" : "no-cache",
		},
	});
}

async function read(file: URL): Promise<Uint8Array<ArrayBuffer> | null> {
	try {
		return new Uint8Array(await readFile(file));
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
		throw error;
	}
}

const NOT_BUILT = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Paddock</title>
<p>The console is not built here. Run <code>npm run console</code> in Paddock's folder and load this page again.</p>
<p>Meanwhile: <a href="/docs">the HTTP interface</a>.</p></html>`;
