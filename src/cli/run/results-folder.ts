import { statSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { UsageError } from "../../errors.ts";
import type { RolloutResult } from "../../model/result.ts";

/** `<out>/<rollout id>/result.json`, and beside it what else was kept: transcript, files, logs. */
export async function saveResult(
	out: string,
	result: RolloutResult,
	files: AsyncIterable<{ name: string; data: Uint8Array }>,
): Promise<void> {
	// Both may come from a server elsewhere, and become names on this disk.
	const folder = join(out, plainName(result.rollout_id));
	await mkdir(folder, { recursive: true });
	await writeFile(join(folder, "result.json"), `${JSON.stringify(result, null, "\t")}\n`);
	for await (const { name, data } of files) await writeFile(join(folder, plainName(name)), data);
}

/** A file in the way is found out before anything has run. */
export function requireFolder(path: string): void {
	const there = statSync(path, { throwIfNoEntry: false });
	if (there !== undefined && !there.isDirectory()) {
		throw new UsageError(`--out ${path} is a file, not a folder.`, "bad_option");
	}
}

function plainName(name: string): string {
	if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(name)) return name;
	throw new UsageError(`The server sent the name ${JSON.stringify(name.slice(0, 100))}.`, "bad_blob_name");
}
