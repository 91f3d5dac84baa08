import { expect, test } from "vitest";
import { SampleBuilder } from "../../src/export/samples.ts";
import { certificateWords, differenceAt, lengthsOf, surpriseOf } from "../../src/ui/data/branch.ts";
import { spellingOf, toLines, toTokens } from "../../src/ui/data/tokens.ts";
import { aCall } from "../export/calls.ts";

const first = aCall({
	index: 0,
	promptIds: [1, 2, 3],
	completionIds: [10, 11],
	completionTexts: ["Hel", "lo\n"],
	logprobs: [-0.05, -3],
	alternatives: [
		[
			{ token: "Hel", logprob: Math.log(0.5) },
			{ token: "By", logprob: Math.log(0.5) },
		],
		[],
	],
});
const second = aCall({
	index: 1,
	promptIds: [1, 2, 3, 10, 77],
	completionIds: [11],
	completionTexts: ["lo"],
});
const calls = new Map([first, second].map((call) => [call.index, call]));
const spelling = spellingOf(calls.values());

function built() {
	const builder = new SampleBuilder();
	const samples = [first, second].flatMap((call) => builder.add(call));
	const { samples: rest, certificate } = builder.finish();
	return { samples: [...samples, ...rest], certificate };
}

test("a prompt is spelt as far as its ids were sampled, and the rest keeps its number", () => {
	const tokens = toTokens({ calls: [1] }, calls, spelling);
	expect(tokens.map((token) => token.text)).toEqual(["⟨1⟩", "⟨2⟩", "⟨3⟩", "Hel", "⟨77⟩", "lo"]);
	expect(tokens.map((token) => token.position)).toEqual([0, 1, 2, 3, 4, 5]);
	expect(tokens.map((token) => token.logprob !== null)).toEqual([false, false, false, false, false, true]);
	// Without a spelling it is one stretch, with the words of its messages.
	expect(toTokens({ calls: [1] }, calls)[0]).toMatchObject({ count: 5, text: "⟦user⟧ hello\n", id: null });
});

test("alternatives come with their token, and make its entropy", () => {
	const tokens = toTokens({ calls: [0] }, calls);
	expect(tokens[1]?.alternatives?.[1]).toEqual({ token: "By", logprob: Math.log(0.5) });
	const { x, series } = surpriseOf(tokens);
	expect(x).toEqual([3, 4]);
	expect(series[0]?.values).toEqual([0.05, 3]);
	expect(series[1]?.values[0]).toBeCloseTo(Math.LN2);
	expect(series[1]?.values[1]).toBeNull();
});

test("the tokens on both sides of a break stand under each other", () => {
	const broken = { reason: "retokenised", position: 4, call: 1, previousCall: 0 } as const;
	const { before, after } = differenceAt(broken, calls, spelling);
	expect(before.slice(0, 5).map((token) => token.id)).toEqual([1, 2, 3, 10, 11]);
	expect(after[4]).toEqual({ position: 4, id: 77, text: "⟨77⟩" });
	expect(before[4]?.text).toBe("lo\n");
	expect(after[5]).toEqual({ position: 5, id: null, text: "" });
});

test("the certificate is said in sentences", () => {
	const { certificate, samples } = built();
	const words = certificateWords(certificate).join("\n");
	expect(samples).toHaveLength(2);
	expect(words).toContain("It is 2 samples");
	expect(words).toMatch(/Prefixes broke: .+ 1×\./);
	expect(words).toContain("Every token that the engine billed was captured (3).");
	expect(lengthsOf({ calls: [0, 1] }, calls).series.map((each) => each.values)).toEqual([
		[3, 5],
		[2, 1],
	]);
});

test("a branch of 200,000 tokens becomes lines and a plot that can be drawn", () => {
	const completionIds = Array.from({ length: 200_000 }, (_, index) => index % 5000);
	const completionTexts = completionIds.map((id) => (id % 9 === 0 ? "\n" : ` w${id}`));
	const call = aCall({ index: 0, promptIds: [1], completionIds, completionTexts });
	const tokens = toTokens({ calls: [0] }, new Map([[0, call]]));
	expect(surpriseOf(tokens).x.length).toBeLessThanOrEqual(600);
	const lines = toLines(tokens, false);
	expect(Math.max(...lines.map((line) => line.owners.length))).toBeLessThanOrEqual(120);
	expect(lines.at(-1)!.owners.at(-1)).toBe(tokens.length - 1);
});
