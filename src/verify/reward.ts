import { RolloutError } from "../errors.ts";
import type { CommandResult } from "../model/event.ts";

/** What the verifier may have written, `reward.json` before `reward.txt`. */
export interface RewardFiles {
	json: string | null;
	txt: string | null;
}

/** A written finite number wins; otherwise passed/total of the commands; otherwise null. Anything else is a verifier failure. */
export function toReward(files: RewardFiles, results: readonly CommandResult[]): number | null {
	if (files.json !== null) return finite(numberInJson(files.json), "reward.json", files.json);
	if (files.txt !== null) return finite(numberInText(files.txt), "reward.txt", files.txt);
	if (results.length === 0) return null;
	return results.filter((result) => result.exitCode === 0).length / results.length;
}

function numberInJson(text: string): unknown {
	let value: unknown;
	try {
		value = JSON.parse(text);
	} catch {
		return undefined;
	}
	if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
	const entries = Object.entries(value);
	// One number under any name is as clear as one called "reward".
	return "reward" in value ? value.reward : entries.length === 1 ? entries[0]![1] : undefined;
}

/** Number("") is 0 and Number("0x10") is 16: only what people call a number counts. */
function numberInText(text: string): unknown {
	const trimmed = text.trim();
	return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(trimmed) ? Number(trimmed) : undefined;
}

function finite(value: unknown, file: string, text: string): number {
	if (typeof value === "number" && Number.isFinite(value)) return value;
	throw new RolloutError(
		"verifier",
		"bad_reward",
		`${file} does not hold one finite number (it starts with ${JSON.stringify(text.slice(0, 80))})`,
	);
}
