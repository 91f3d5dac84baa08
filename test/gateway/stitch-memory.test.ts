import { expect, test } from "vitest";
import { type Delivered, idsOf, Memory } from "../../src/gateway/stitch/memory.ts";

function delivered(index: number, tail: number[] | number, parent: Delivered | null = null): Delivered {
	const ids = Int32Array.from(typeof tail === "number" ? Array.from({ length: tail }, () => index) : tail);
	return {
		index,
		messages: 0,
		history: "",
		terms: "t",
		reply: { role: "assistant", content: "ok" },
		bytes: 0,
		isCut: false,
		hasReasoned: false,
		line: {
			before: parent?.line ?? null,
			tail: ids,
			length: (parent?.line.length ?? 0) + ids.length,
			users: 0,
		},
	};
}

const request = [
	{ role: "assistant", content: "ok" },
	{ role: "user", content: "go" },
];
const found = (memory: Memory, session: string) =>
	memory.find(session, { histories: [""], terms: "t" }, request)?.call.index;

test("a call has all tokens of its line, each kept once", () => {
	const first = delivered(0, [1, 2, 3]);
	const second = delivered(1, [4, 5], first);
	const branch = delivered(2, [6], first);
	expect(idsOf(delivered(3, [7], second).line)).toEqual([1, 2, 3, 4, 5, 7]);
	expect(idsOf(branch.line)).toEqual([1, 2, 3, 6]);
});

test("the session that rested longest is forgotten first, by count and by size; it is still known to have spoken", () => {
	const memory = new Memory();
	for (let index = 0; index < 40; index += 1) memory.add(`ses_${index}`, delivered(index, 10));
	expect([found(memory, "ses_0"), found(memory, "ses_7"), found(memory, "ses_8")]).toEqual([
		undefined,
		undefined,
		8,
	]);
	memory.add("ses_8", delivered(100, 10));
	memory.add("ses_40", delivered(101, 10));
	expect([memory.has("ses_8"), memory.has("ses_9"), memory.knows("ses_9")]).toEqual([true, false, true]);
	memory.add("ses_big", delivered(102, 3_999_995));
	expect([memory.has("ses_8"), memory.has("ses_40"), found(memory, "ses_big")]).toEqual([false, false, 102]);
	memory.add("ses_big", delivered(103, 10));
	expect([memory.has("ses_big"), memory.knows("ses_big"), memory.knows("ses_new")]).toEqual([
		false,
		true,
		false,
	]);
	memory.add("ses_big", delivered(104, 10));
	expect(found(memory, "ses_big")).toBe(104);
});

test("a session of any number of calls holds their tokens once, and counts them once", () => {
	const memory = new Memory();
	let last: Delivered | null = null;
	for (let index = 0; index < 300; index += 1) {
		last = delivered(index, 10_000, last);
		memory.add("ses_1", last);
	}
	expect(memory.has("ses_1")).toBe(true);
	expect(idsOf(last!.line)).toHaveLength(3_000_000);
	memory.add("ses_2", delivered(300, 1_500_000));
	// All of the first is gone, so there is room again for as much.
	expect(memory.has("ses_1")).toBe(false);
	memory.add("ses_3", delivered(301, 2_000_000));
	expect(memory.has("ses_2")).toBe(true);
});

test("what nothing remembered builds on is forgotten with its call, and its room is free again", () => {
	const memory = new Memory();
	const first = delivered(0, 1_000_000);
	memory.add("ses_1", first);
	// Branches that nobody goes on from: 64 are remembered, the rest makes room.
	for (let index = 1; index <= 200; index += 1) memory.add("ses_1", delivered(index, 40_000, first));
	expect(memory.has("ses_1")).toBe(true);
	expect(found(memory, "ses_1")).toBe(200);
});

test("replies count as well as tokens", () => {
	const memory = new Memory();
	memory.add("ses_1", { ...delivered(0, 10), bytes: 9_000_000 });
	memory.add("ses_2", { ...delivered(1, 10), bytes: 9_000_000 });
	expect([memory.has("ses_1"), memory.has("ses_2")]).toEqual([false, true]);
});
