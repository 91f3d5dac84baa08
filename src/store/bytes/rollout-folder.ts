import { UsageError } from "../../errors.ts";

/** Ids and names come from outside and become file names: nothing but plain words may pass. */
export function checkId(id: string): string {
	if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/.test(id)) return id;
	throw new UsageError("A rollout id is made of letters, digits, _ and -.", "bad_rollout_id");
}

export function checkBlobName(name: string): string {
	if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(name)) return name;
	throw new UsageError("A blob name is made of letters, digits, dots, _ and -.", "bad_blob_name");
}
