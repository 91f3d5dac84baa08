import { accessSync, constants, statSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";
import { RolloutError } from "../errors.ts";
import { findAgentBinary } from "./binary.ts";

const SYSTEM_FOLDERS = ["/usr/local/bin", "/usr/bin", "/opt/opencode/bin"];
const HOME_FOLDERS = [".opencode/bin", ".local/bin"];

export interface FindOptions {
	/** Said by the operator: this one or none. */
	explicit?: string | null;
	path?: string | undefined;
	home?: string;
	/** What npm installed with us; null where there is none. */
	bundled?: () => string | null;
}

/**
 * The OpenCode program for a server outside any box: the one that was named, else the one that came with us, else on PATH, in our
 * own home, in the system's folders. One that another user could put there, or change, is never taken.
 */
export function findServeProgram(options: FindOptions = {}): string {
	const { explicit = null, path = "", home = homedir(), bundled = installed } = options;
	if (explicit !== null) {
		if (isAbsolute(explicit) && isExecutable(explicit)) return explicit;
		throw missing(`${explicit} is no absolute path of a program`);
	}
	const own = bundled();
	if (own !== null) return own;
	// A relative folder on PATH means another one wherever we are.
	const folders = [
		...path.split(delimiter).filter(isAbsolute),
		...HOME_FOLDERS.map((folder) => join(home, folder)),
		...SYSTEM_FOLDERS,
	];
	const found = folders
		.map((folder) => join(folder, "opencode"))
		.find((file) => isExecutable(file) && isOurs(file));
	if (found !== undefined) return found;
	throw missing("opencode is neither installed with Paddock nor on PATH");
}

function missing(what: string): RolloutError {
	return new RolloutError(
		"sandbox",
		"agent_binary_missing",
		`${what}: install it (npm install -g opencode-ai), or name it with --binary`,
	);
}

function installed(): string | null {
	try {
		return findAgentBinary();
	} catch (error) {
		if (error instanceof RolloutError) return null;
		throw error;
	}
}

/** Ours or root's, and nobody else can write it. */
function isOurs(file: string): boolean {
	const { uid, mode } = statSync(file);
	return (uid === 0 || uid === process.getuid?.()) && (mode & 0o002) === 0;
}

function isExecutable(file: string): boolean {
	try {
		accessSync(file, constants.X_OK);
		return statSync(file).isFile();
	} catch {
		return false;
	}
}
