import { randomInt } from "node:crypto";

const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
let lastMs = 0;
let counter = 0;

/** An id in OpenCode's own shape: sorts by time, since its clients sort by id. */
export function mintId(prefix: "msg" | "prt", now: number = Date.now()): string {
	counter = now === lastMs ? counter + 1 : 0;
	lastMs = now;
	const time = BigInt.asUintN(48, BigInt(now) * 4096n + BigInt(counter));
	const chance = Array.from({ length: 14 }, () => LETTERS[randomInt(LETTERS.length)]).join("");
	return `${prefix}_${time.toString(16).padStart(12, "0")}${chance}`;
}
