import type { Rollout } from "../model/rollout.ts";
import { HOME, WORKDIR } from "../model/task.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { Store } from "../store/store.ts";
import type { RolloutRecord } from "./record.ts";

const MAX_LISTED = 1_000;
const MAX_KEPT = 64;
const MAX_FILE_BYTES = 64 * 1024;
const SKIPPED = /(^|\/)(\.git|node_modules|__pycache__)(\/|$)/;

/** Keeps what the workdir held at the end: a list of all, the text of the small ones. Nothing runs in the box any more. */
export async function collect(
	rollout: Rollout,
	box: Sandbox,
	store: Store,
	record: RolloutRecord,
): Promise<void> {
	const workdir = WORKDIR.replace(HOME, box.home);
	const entries = await box.list(workdir, { recursive: true, maxEntries: MAX_LISTED });
	const files = entries.filter((entry) => entry.type === "file");
	record.files = files.map(({ path, sizeBytes }) => ({ path, sizeBytes }));
	const kept: Record<string, string> = {};
	for (const { path, sizeBytes } of files) {
		if (Object.keys(kept).length >= MAX_KEPT) break;
		if (sizeBytes > MAX_FILE_BYTES || SKIPPED.test(path)) continue;
		const data = await box.readFile(`${workdir}/${path}`, { maxBytes: MAX_FILE_BYTES });
		if (!data.includes(0)) kept[path] = data.toString("utf8");
	}
	await store.putBlob(rollout.id, "files.json", Buffer.from(JSON.stringify(kept)));
}
