import { realpath, stat } from "node:fs/promises";
import { sep } from "node:path";
import { messageOf, RolloutError } from "../../errors.ts";
import { WORKDIR } from "../../model/task.ts";
import { pathIn, type Sandbox } from "../../sandbox/sandbox.ts";

/** A folder of this machine that an agent may work in. */
export interface Folder {
	/** Without any link. */
	path: string;
	/** What it is, whatever its name points to later. */
	identity: string;
}

/**
 * Only what the operator of this machine allowed, after all links are followed: what lies in an allowed folder may be written by
 * agents, and so may be a link to anywhere. `allowed` is null where the one who asks is the operator.
 */
export async function findFolder(asked: string, allowed: readonly string[] | null): Promise<Folder> {
	let path: string;
	try {
		path = await realpath(asked);
	} catch (error) {
		throw refused("folder_missing", `the folder cannot be used on this machine: ${messageOf(error)}`);
	}
	const found = await stat(path);
	if (!found.isDirectory()) throw refused("folder_missing", `${path} is not a folder`);
	if (allowed !== null && !(await isWithin(path, allowed)))
		throw refused(
			"folder_refused",
			"the folder is not allowed here: the operator names those that are in PADDOCK_FOLDERS",
		);
	return { path, identity: `${found.dev}:${found.ino}` };
}

/** A name may have come to point elsewhere between the look and the mount. Asked before the agent exists. */
export async function requireSameFolder(box: Sandbox, { identity }: Folder): Promise<void> {
	const { stdout } = await box.exec(["stat", "-c", "%d:%i", pathIn(box, WORKDIR)]);
	if (stdout.trim() !== identity)
		throw refused("folder_refused", "the folder was exchanged while the box opened");
}

async function isWithin(path: string, allowed: readonly string[]): Promise<boolean> {
	for (const one of allowed) {
		const root = await realpath(one).catch(() => null);
		if (root !== null && (path === root || path.startsWith(root.endsWith(sep) ? root : root + sep)))
			return true;
	}
	return false;
}

function refused(code: string, message: string): RolloutError {
	return new RolloutError("sandbox", code, message);
}
