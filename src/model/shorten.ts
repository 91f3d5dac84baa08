/** A single tool output may be large; an event keeps a head of it, the transcript all. */
const TEXT_LIMIT = 4_000;
const ENTRIES_LIMIT = 100;

/** Whether a text may be the head of a longer one. */
export function isShortened(text: string): boolean {
	return text.length > TEXT_LIMIT;
}

export function shorten(value: unknown): unknown {
	if (typeof value === "string") {
		return value.length > TEXT_LIMIT ? `${value.slice(0, TEXT_LIMIT)}… (${value.length} characters)` : value;
	}
	if (Array.isArray(value)) return value.slice(0, ENTRIES_LIMIT).map(shorten);
	if (value === null || typeof value !== "object") return value;
	const entries = Object.entries(value).slice(0, ENTRIES_LIMIT);
	return Object.fromEntries(entries.map(([key, entry]) => [key, shorten(entry)]));
}
