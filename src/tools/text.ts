import { UsageError } from "../errors.ts";

/** Databases refuse NUL and broken surrogates; refused here, where the argument can still be named. */
export function refuseUnstorableText(value: unknown, argument = "arguments"): void {
	if (typeof value === "string") {
		if (value.includes("\0") || !value.isWellFormed())
			throw new UsageError(`${argument} must be valid Unicode without NUL`, "bad_text");
		return;
	}
	if (value === null || typeof value !== "object") return;
	for (const [key, item] of Object.entries(value)) {
		refuseUnstorableText(key, argument);
		refuseUnstorableText(item, argument === "arguments" ? key : argument);
	}
}
