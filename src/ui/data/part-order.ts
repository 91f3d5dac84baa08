import type { Entry } from "./transcript.ts";

/** As things came; but a part that came after a later one of its message stands before it. */
export function inOrder(entries: Iterable<Entry>): Entry[] {
	const ordered: Entry[] = [];
	const byMessage = new Map<string, Entry[]>();
	for (const entry of entries) {
		const siblings = byMessage.get(entry.part?.messageId ?? "") ?? [];
		if (entry.part !== undefined) byMessage.set(entry.part.messageId, siblings);
		const later = entry.part === undefined ? undefined : joinIn(entry, siblings);
		if (later === undefined) ordered.push(entry);
		else ordered.splice(ordered.indexOf(later), 0, entry);
	}
	return ordered;
}

/** Takes its place among the parts of its message, and says which one it stands before. */
function joinIn(entry: Entry, siblings: Entry[]): Entry | undefined {
	const isLast = siblings.length === 0 || siblings.at(-1)!.part!.id < entry.part!.id;
	const at = isLast ? siblings.length : siblings.findIndex((other) => other.part!.id > entry.part!.id);
	siblings.splice(at, 0, entry);
	return siblings[at + 1];
}
