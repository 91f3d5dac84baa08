import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { describeSelf, isAlive, Owner } from "./lease.ts";

/** Names of the labels that say whose a box is, wherever a backend lets us attach labels. */
export const LABELS = {
	box: "paddock.box",
	owner: "paddock.owner",
	/** Several machines may share an engine or an account; each judges only its own boxes. */
	machine: "paddock.machine",
} as const;

export async function labelsOf(boxId: string): Promise<Record<string, string>> {
	return {
		[LABELS.box]: boxId,
		[LABELS.owner]: JSON.stringify(await describeSelf()),
		[LABELS.machine]: await machineId(),
	};
}

/** False where the label is missing or means nothing: such a box is not ours to judge. */
export async function isOrphaned(labels: Record<string, string>): Promise<boolean> {
	const owner = parseOwner(labels[LABELS.owner]);
	return owner !== null && !(await isAlive(owner));
}

export async function machineId(): Promise<string> {
	const id = await readFile("/etc/machine-id", "utf8").catch(() => "");
	return id.trim() || hostname();
}

function parseOwner(text: string | undefined): Owner | null {
	try {
		return Owner.parse(JSON.parse(text ?? ""));
	} catch {
		return null;
	}
}
