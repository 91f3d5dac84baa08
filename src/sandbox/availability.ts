import { messageOf } from "../errors.ts";
import type { Availability } from "./sandbox.ts";

export interface Look {
	name: string;
	/** What to do when it fails. */
	fix: string;
	/** Resolves to what was found. */
	look(): Promise<string>;
}

/** Looks one after the other; the first that fails is the last. */
export async function lookInTurn(looks: readonly Look[]): Promise<Availability> {
	const checks: Availability["checks"] = [];
	for (const { name, fix, look } of looks) {
		try {
			checks.push({ name, ok: true, detail: await look() });
		} catch (error) {
			checks.push({ name, ok: false, detail: messageOf(error), fix });
			return { ok: false, checks };
		}
	}
	return { ok: true, checks };
}
