import type { OpenAPIHono } from "@hono/zod-openapi";
import type { RolloutRow } from "../model/rollout.ts";
import type { Paddock } from "../paddock.ts";

const SURFACES: [path: string, what: string][] = [
	["/docs", "the HTTP interface, to read"],
	["/openapi.json", "the same for programs"],
	["/api/v1/rollouts", "rollouts as JSON"],
	["/mcp", "MCP over streamable HTTP, and OpenEnv's JSON-RPC"],
	["/ws", "OpenEnv's socket"],
	["/health", "whether the server is up"],
];

/** A plain page: what this server speaks, and what it did lately. */
export function mountWebPage(app: OpenAPIHono, paddock: Paddock): void {
	for (const path of ["/web", "/web/"])
		app.get(path, async (context) => {
			const { items } = await paddock.list({}, { limit: 50, order: "newest" });
			context.header(
				"content-security-policy",
				"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'",
			);
			return context.html(renderPage(items));
		});
}

export function renderPage(rollouts: RolloutRow[]): string {
	const surfaces = SURFACES.map(
		([path, what]) => `<li><a href="${path}"><code>${path}</code></a> ${escapeHtml(what)}</li>`,
	);
	const rows = rollouts.map(toRow);
	return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Paddock</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8885}code{font-size:.9em}</style>
</head><body><h1>Paddock</h1>
<p>Runs the OpenCode coding agent on tasks, in sandboxes, against any model.</p>
<h2>Surfaces</h2><ul>${surfaces.join("\n")}</ul>
<h2>Recent rollouts</h2>
${rows.length === 0 ? "<p>None yet.</p>" : `<table><tr><th>Rollout</th><th>Task</th><th>Status</th><th>Reward</th><th>Model calls</th><th>Began</th></tr>\n${rows.join("\n")}</table>`}
</body></html>
`;
}

function toRow(rollout: RolloutRow): string {
	const status = rollout.outcome ?? `${rollout.status}, ${rollout.phase}`;
	const cells = [
		rollout.taskId,
		rollout.failure === null ? status : `${status}: ${rollout.failure.code}`,
		rollout.reward === null ? "" : String(rollout.reward),
		String(rollout.calls),
		new Date(rollout.createdAt).toISOString(),
	];
	const link = `/api/v1/rollouts/${encodeURIComponent(rollout.id)}`;
	return `<tr><td><a href="${escapeHtml(link)}"><code>${escapeHtml(rollout.id)}</code></a></td>${cells.map((cell) => `<td>${escapeHtml(cell)}</td>`).join("")}</tr>`;
}

const ENTITIES: Record<string, string> = {
	"&": "&amp;",
	"<": "&lt;",
	">": "&gt;",
	'"': "&quot;",
	"'": "&#39;",
};

function escapeHtml(text: string): string {
	return text.replace(/[&<>"']/g, (character) => ENTITIES[character]!);
}
