import type { OpenAPIHono } from "@hono/zod-openapi";
import { getBlob, getDiff, getFile, listFiles } from "../api/trace.ts";
import { isBlobName } from "../model/blob.ts";
import { type HttpDoor, requireRollout, requireRow } from "./http-door.ts";
import { mount } from "./mount.ts";
import { ProblemError } from "./problem.ts";

export function mountFiles(app: OpenAPIHono, door: HttpDoor): void {
	const { paddock } = door;

	mount(app, listFiles, async ({ params }) => {
		const rollout = await requireRollout(door, params.id);
		return { files: rollout.summary?.files ?? [], blobs: await paddock.blobs(params.id) };
	});

	mount(app, getBlob, async ({ params }) => {
		const bytes = await requireBlob(door, params.id, params.name);
		return download(bytes, params.name, "application/octet-stream");
	});

	mount(app, getFile, async ({ params, query }) => {
		const kept = JSON.parse((await requireBlob(door, params.id, "files.json")).toString("utf8")) as object;
		const found = Object.entries(kept).find(([path]) => path === query.path);
		if (!found) throw new ProblemError(404, "not_found", `rollout ${params.id} kept no file of that name`);
		const name = (query.path.split("/").at(-1) ?? "").replace(/[^A-Za-z0-9._-]/g, "_");
		return download(Buffer.from(String(found[1])), name, "text/plain; charset=utf-8");
	});

	mount(app, getDiff, async ({ params }) => {
		const bytes = await requireBlob(door, params.id, "diff.patch");
		return download(bytes, `${params.id}.patch`, "text/plain; charset=utf-8");
	});
}

async function requireBlob(door: HttpDoor, id: string, name: string): Promise<Buffer> {
	await requireRow(door, id);
	const bytes = isBlobName(name) ? await door.paddock.blob(id, name) : null;
	if (!bytes) throw new ProblemError(404, "not_found", `rollout ${id} left no ${name}`);
	return bytes;
}

/** What an agent wrote is hostile: never shown as a page of ours. */
export function download(bytes: Buffer, name: string, type: string): Response {
	return new Response(new Uint8Array(bytes), {
		headers: {
			"content-type": type,
			"content-disposition": `attachment; filename="${name}"`,
			"content-security-policy": "sandbox; default-src 'none'",
		},
	});
}
