import { type Dirent, existsSync, readdirSync, readlinkSync } from "node:fs";

/** Looking through more than this takes longer than it is worth. */
const MAX_ENTRIES = 50_000;

/**
 * Whether a symbolic link below these folders goes up, or may: what it leads to then depends on where its folder lies, and a program
 * that moves that folder has made a link to somewhere else. What cannot be looked into, a program may open for itself.
 */
export function hasLinkThatGoesUp(folders: readonly string[]): boolean {
	let left = MAX_ENTRIES;
	const waiting = folders.filter((folder) => existsSync(folder));
	for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
		const entries = entriesOf(folder);
		if (entries === null || entries.length > left) return true;
		left -= entries.length;
		for (const entry of entries) {
			const path = `${folder}/${entry.name}`;
			if (entry.isSymbolicLink() && goesUp(path)) return true;
			if (entry.isDirectory()) waiting.push(path);
		}
	}
	return false;
}

function goesUp(link: string): boolean {
	return readlinkSync(link).split("/").includes("..");
}

function entriesOf(folder: string): Dirent[] | null {
	try {
		return readdirSync(folder, { withFileTypes: true });
	} catch {
		return null;
	}
}
