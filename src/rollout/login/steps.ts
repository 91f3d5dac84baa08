import { messageOf } from "../../errors.ts";
import { inTime, unresponsiveBox } from "../clock.ts";

export interface Step {
	/** As in "ending the agent did not end within 10 s". */
	name: string;
	limitS: number;
	act: () => PromiseLike<unknown>;
}

/** One after the other, each within its limit: what one throws, or that it hangs, is said, and the next one comes all the same. */
export async function inOrder(steps: readonly Step[], say: (text: string) => void): Promise<void> {
	for (const { name, limitS, act } of steps) {
		try {
			// A step may throw before it has promised anything.
			const work = Promise.resolve().then(act);
			await inTime(work, { ms: limitS * 1000, late: () => unresponsiveBox(name, limitS) });
		} catch (error) {
			say(`${name}: ${messageOf(error)}`);
		}
	}
}
