import type { OpenApiDocument } from "./openapi.ts";

type Json = Record<string, unknown>;

interface Operation {
	operationId?: string;
	summary?: string;
	tags?: string[];
	parameters?: { name: string; in: string; required?: boolean; description?: string; schema?: Json }[];
	requestBody?: { content: Record<string, { schema?: Json }> };
	responses?: Record<string, { description?: string; content?: Record<string, { schema?: Json }> }>;
}

/** The OpenAPI document as one page for people. It loads nothing: no script, no font, no other host. */
export function docsPage(document: OpenApiDocument): string {
	const operations = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
		Object.entries(item as Record<string, Operation>).map(([method, operation]) => ({
			method,
			path,
			operation,
		})),
	);
	const tags = [...new Set(operations.map(({ operation }) => operation.tags?.[0] ?? "other"))];
	const sections = tags.map((tag) => {
		const rows = operations.filter(({ operation }) => (operation.tags?.[0] ?? "other") === tag);
		return `<h2 id="${escapeHtml(tag)}">${escapeHtml(tag)}</h2>${rows.map(operationBlock).join("")}`;
	});
	const schemas = Object.entries(document.components?.schemas ?? {}).map(schemaBlock);
	return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Paddock HTTP API</title><style>${STYLE}</style></head><body>
<nav><b>Paddock</b>${[...tags, "schemas"].map((tag) => `<a href="#${escapeHtml(tag)}">${escapeHtml(tag)}</a>`).join("")}<a href="/openapi.json">openapi.json</a></nav>
<main><h1>Paddock HTTP API <small>${escapeHtml(document.info.version)}</small></h1>
<p>${escapeHtml(document.info.description ?? "")}</p>
<p>JSON is camelCase, query parameters are snake_case. Every error is <code>application/problem+json</code> with a stable <code>code</code>.</p>
${sections.join("")}<h2 id="schemas">schemas</h2>${schemas.join("")}</main></body></html>`;
}

function operationBlock({
	method,
	path,
	operation,
}: {
	method: string;
	path: string;
	operation: Operation;
}): string {
	const parameters = (operation.parameters ?? []).map(
		(parameter) =>
			`<tr><td><code>${escapeHtml(parameter.name)}</code></td><td>${escapeHtml(parameter.in)}${parameter.required ? ", required" : ""}</td><td>${schemaText(parameter.schema)}</td><td>${escapeHtml(parameter.description ?? "")}</td></tr>`,
	);
	const responses = Object.entries(operation.responses ?? {}).map(
		([status, response]) =>
			`<tr><td><code>${escapeHtml(status)}</code></td><td>${escapeHtml(response.description ?? "")}</td><td>${contentText(response.content)}</td></tr>`,
	);
	return `<details id="${escapeHtml(operation.operationId ?? path)}"><summary><span class="method ${escapeHtml(method)}">${escapeHtml(method.toUpperCase())}</span> <code>${escapeHtml(path)}</code> <span>${escapeHtml(operation.summary ?? "")}</span></summary>
${parameters.length ? `<h4>Parameters</h4><table>${parameters.join("")}</table>` : ""}
${operation.requestBody ? `<h4>Body</h4><p>${contentText(operation.requestBody.content)}</p>` : ""}
<h4>Answers</h4><table>${responses.join("")}</table></details>`;
}

function schemaBlock([name, schema]: [string, unknown]): string {
	const { properties, required = [] } = schema as { properties?: Record<string, Json>; required?: string[] };
	const rows = Object.entries(properties ?? {}).map(
		([field, value]) =>
			`<tr><td><code>${escapeHtml(field)}</code></td><td>${required.includes(field) ? "required" : ""}</td><td>${schemaText(value)}</td><td>${escapeHtml(String(value.description ?? ""))}</td></tr>`,
	);
	const content = rows.length ? `<table>${rows.join("")}</table>` : `<p>${schemaText(schema as Json)}</p>`;
	return `<details id="schema-${escapeHtml(name)}"><summary><code>${escapeHtml(name)}</code></summary>${content}</details>`;
}

function contentText(content: Record<string, { schema?: Json }> = {}): string {
	return Object.entries(content)
		.map(([type, { schema }]) => `<code>${escapeHtml(type)}</code> ${schemaText(schema)}`)
		.join("<br>");
}

function schemaText(schema: Json | undefined): string {
	if (!schema) return "";
	if (typeof schema.$ref === "string") {
		const name = escapeHtml(schema.$ref.split("/").at(-1) ?? "");
		return `<a href="#schema-${name}">${name}</a>`;
	}
	const choices = (schema.anyOf ?? schema.oneOf) as Json[] | undefined;
	if (choices) return choices.map(schemaText).join(" or ");
	if (Array.isArray(schema.allOf)) return (schema.allOf as Json[]).map(schemaText).join(" and ");
	if (Array.isArray(schema.enum))
		return schema.enum.map((value) => `<code>${escapeHtml(String(value))}</code>`).join(" ");
	if (schema.type === "array") return `list of ${schemaText(schema.items as Json)}`;
	if (schema.type === "object" && schema.properties) return objectText(schema);
	const text = escapeHtml([schema.type].flat().filter(Boolean).join(" or ") || "anything");
	const fallback =
		schema.default === undefined
			? ""
			: `, default <code>${escapeHtml(JSON.stringify(schema.default))}</code>`;
	return `${text}${fallback}`;
}

function objectText(schema: Json): string {
	const fields = Object.entries(schema.properties as Record<string, Json>);
	return `{ ${fields.map(([name, value]) => `<code>${escapeHtml(name)}</code>: ${schemaText(value)}`).join(", ")} }`;
}

function escapeHtml(text: string): string {
	return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const STYLE = `
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}
body{margin:0;display:grid;grid-template-columns:11rem minmax(0,60rem);gap:2rem}
nav{position:sticky;top:0;height:100vh;padding:1.5rem 1rem;box-sizing:border-box;display:flex;flex-direction:column;gap:.4rem;border-right:1px solid #8884}
main{padding:1rem 1rem 4rem}a{color:inherit}h1 small{font-weight:400;opacity:.6}h2{margin-top:2.5rem;text-transform:capitalize}
details{border:1px solid #8884;border-radius:6px;margin:.4rem 0;padding:.4rem .8rem}summary{cursor:pointer}summary span:last-child{opacity:.75}
.method{display:inline-block;min-width:3.5rem;font-weight:700}.get{color:#0a7}.post{color:#06c}.delete{color:#c33}
table{border-collapse:collapse;width:100%}td{border-top:1px solid #8883;padding:.25rem .5rem;vertical-align:top}code{font-size:.92em}
@media(max-width:50rem){body{display:block}nav{position:static;height:auto;flex-flow:row wrap}}`;
