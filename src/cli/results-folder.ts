import { statSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { UsageError } from "../errors.ts";
import type { RolloutResult } from "../model/result.ts";

/** `<out>/<rollout id>/result.json`, and beside it what else was kept: transcript, files, logs. */
export async function saveResult(
	out: string,
	result: RolloutResult,
	files: AsyncIterable<{ name: string; data: Uint8Array }>,
): Promise<void> {
	const folder = join(out, result.rollout_id);
	await mkdir(folder, { recursive: true });
	await writeFile(join(folder, "result.json"), `${JSON.stringify(result, null, "\t")}\n`);
	for await (const { name, data } of files) await writeFile(join(folder, basename(name)), data);
}

/** A file in the way is found out before anything has run. */
export function requireFolder(path: string): void {
	const there = statSync(path, { throwIfNoEntry: false });
	if (there !== undefined && !there.isDirectory()) {
		throw new UsageError(`--out ${path} is a file, not a folder.`, "bad_option");
	}
}
