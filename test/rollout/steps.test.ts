import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { inOrder } from "../../src/rollout/login/steps.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

const NAMES = ["ending", "watching", "saving", "releasing"];
const BREAKS: Record<string, () => PromiseLike<unknown>> = {
	"throws at once": () => {
		throw new Error("broken");
	},
	rejects: async () => {
		throw new Error("broken");
	},
	hangs: () => new Promise(() => {}),
};
const EACH = NAMES.flatMap((name) => Object.keys(BREAKS).map((how) => [name, how] as const));

test.for(EACH)(
	"of steps one after the other, %s %s: all later ones come, and it is said which it was",
	async ([broken, how]) => {
		const done: string[] = [];
		const said: string[] = [];
		const steps = NAMES.map((name) => ({
			...{ name, limitS: 5 },
			act: name === broken ? BREAKS[how]! : async () => void done.push(name),
		}));
		const all = inOrder(steps, (text) => void said.push(text));
		await vi.advanceTimersByTimeAsync(5_000);
		await all;
		expect(done).toEqual(NAMES.filter((name) => name !== broken));
		expect(said).toEqual([
			expect.stringMatching(new RegExp(`^${broken}: .*(broken|did not end within 5 s)`)),
		]);
		expect(vi.getTimerCount()).toBe(0);
	},
);
