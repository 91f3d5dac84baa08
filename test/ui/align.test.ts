import { expect, test } from "vitest";
import { align } from "../../src/ui/data/align.ts";
import type { Entry } from "../../src/ui/data/transcript.ts";

const said = (...words: string[]) =>
	words.map((text, at): Entry => ({ key: `${text}-${at}`, at, depth: 0, type: "text", text }));
const shown = (left: Entry[], right: Entry[]) =>
	align(left, right).map((row) =>
		[row.left, row.right]
			.map((entry) => (entry?.type === "text" ? entry.text : "·"))
			.join(row.isAlike ? "=" : "|"),
	);

test("what both did stands in one line, also behind the place where they part", () => {
	expect(shown(said("look", "read", "test", "done"), said("look", "skip", "test"))).toEqual([
		...["look=look", "read|skip", "test=test", "done|·"],
	]);
	expect(shown(said("a"), [])).toEqual(["a|·"]);
	expect(shown(said("a", "b"), said("b"))).toEqual(["a|·", "b=b"]);
});

test("the same call is the same step, whatever came out of it", () => {
	const tool = (output: string): Entry => ({
		...{ key: output, at: 0, depth: 0, type: "tool", tool: "bash", status: "completed", title: "ls" },
		...{ input: { command: "ls" }, output, error: null, durationS: null },
	});
	expect(align([tool("a")], [tool("b")])).toMatchObject([{ isAlike: true }]);
});

test("thousands of steps are aligned as far as they are compared, and none is lost", () => {
	const long = said(...Array.from({ length: 3000 }, (_, at) => `step ${at}`));
	const rows = align(long, long);
	expect(rows.filter((row) => row.left !== null)).toHaveLength(3000);
	expect(rows.filter((row) => row.right !== null)).toHaveLength(3000);
});
