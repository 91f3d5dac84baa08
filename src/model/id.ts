import { randomBytes } from "node:crypto";

/** `prefix_` + 10 characters of time + 12 of chance: sorts by creation, never collides, safe in paths and URLs. */
export function newId(prefix: string, now: number = Date.now()): string {
	return `${prefix}_${now.toString(36).padStart(9, "0")}${randomBytes(6).toString("hex")}`;
}
