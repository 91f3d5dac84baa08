import { stat } from "node:fs/promises";
import { RolloutError } from "../../errors.ts";

/** Whose uid a box must have to write there. Root's own folders stay root's: no box runs as root. */
export async function folderOwner(folder: string): Promise<number> {
	const { uid } = await stat(folder);
	if (uid !== 0) return uid;
	const message = "the folder belongs to root, and no box runs as root: give it to another user";
	throw new RolloutError("sandbox", "folder_refused", message);
}
