import { UsageError } from "../errors.ts";

/** Databases refuse NUL and broken surrogates: no text that holds one can be stored, or ever was. */
export function isStorable(text: string): boolean {
	return !text.includes("\0") && text.isWellFormed();
}

/** Refuses what no store could keep, naming the field; a file with such bytes goes as base64. */
export function requireStorable(value: unknown, field: string): void {
	if (typeof value === "string") {
		if (isStorable(value)) return;
		throw new UsageError(
			`${field} must be valid Unicode without NUL; bytes of files go as base64`,
			"bad_text",
		);
	}
	if (value === null || typeof value !== "object") return;
	for (const [name, item] of Object.entries(value)) {
		if (!Array.isArray(value)) requireStorable(name, `a name in ${field}`);
		requireStorable(item, Array.isArray(value) ? field : `${field}.${name}`);
	}
}
