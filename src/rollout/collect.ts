import { messageOf, RolloutError } from "../errors.ts";
import type { Rollout } from "../model/rollout.ts";
import { WORKDIR } from "../model/task.ts";
import { pathIn, type Sandbox } from "../sandbox/sandbox.ts";
import type { Store } from "../store/store.ts";
import { inTime, unresponsiveBox } from "./clock.ts";
import type { RolloutRecord } from "./record.ts";

const MAX_LISTED = 1_000;
const MAX_KEPT = 64;
const MAX_FILE_BYTES = 64 * 1024;
const UNREADABLE = new Set([
	"file_denied",
	"file_not_found",
	"file_too_large",
	"link_refused",
	"not_a_file",
	"box_operation_failed",
]);
const SKIPPED = /(^|\/)(\.git|node_modules|__pycache__)(\/|$)/;

/**
 * Keeps what the workdir held at the end: a list of all, the text of the small ones. Nothing runs in the box any more. What the
 * agent left unreadable, or no workdir at all, is noted; the verdict stands.
 */
export async function collect(
	rollout: Rollout,
	box: Sandbox,
	store: Store,
	record: RolloutRecord,
): Promise<void> {
	const { teardownS } = rollout.request.task.clocks;
	const late = () => unresponsiveBox("collecting files", teardownS);
	try {
		const kept = await inTime(read(box, record), { ms: teardownS * 1000, late });
		await store.putBlob(rollout.id, rollout.attempt, "files.json", Buffer.from(JSON.stringify(kept)));
	} catch (error) {
		record.note(`the files of the workdir could not be kept: ${messageOf(error)}`);
	}
}

async function read(box: Sandbox, record: RolloutRecord): Promise<Record<string, string>> {
	const workdir = pathIn(box, WORKDIR);
	const entries = await box.list(workdir, { recursive: true, maxEntries: MAX_LISTED });
	const files = entries.filter((entry) => entry.type === "file");
	record.files = files.map(({ path, sizeBytes }) => ({ path, sizeBytes }));
	const kept = new Map<string, string>();
	for (const { path, sizeBytes } of files) {
		if (kept.size >= MAX_KEPT) break;
		if (sizeBytes > MAX_FILE_BYTES || SKIPPED.test(path)) continue;
		const text = await readText(box, `${workdir}/${path}`);
		if (text !== null) kept.set(path, text);
	}
	return Object.fromEntries(kept);
}

/** Null for what is not text, and for what the agent made unreadable. */
async function readText(box: Sandbox, path: string): Promise<string | null> {
	try {
		const data = await box.readFile(path, { maxBytes: MAX_FILE_BYTES });
		return data.includes(0) ? null : data.toString("utf8");
	} catch (error) {
		if (error instanceof RolloutError && UNREADABLE.has(error.code)) return null;
		throw error;
	}
}
