import { expect, test } from "vitest";
import { makeVisible } from "../../src/ui/data/hostile.ts";
import { unwrap } from "../../src/ui/data/unwrap.ts";

test("characters that hide, re-order or spell unseen are made visible; letters, lines and emoji stay", () => {
	const hidden = [
		"\u00ad",
		"\u200b",
		"\u202e",
		"\u2066",
		"\u2028",
		"\u3164",
		"\ufeff",
		"\u{e0041}",
		"\u{e0101}",
	];
	for (const each of hidden) expect(makeVisible(`a${each}b`)).toMatch(/^a⟨[0-9a-f]{4,5}⟩b$/);
	expect(makeVisible("\u{e0041}")).toBe("⟨e0041⟩");
	const plain = "tab\there\nünï ça 漢字 ❤️ 🎉";
	expect(makeVisible(plain)).toBe(plain);
	expect(makeVisible("\u001b[31mred\u001b[0m")).toBe("red");
});

test("an instruction broken by hand is one paragraph; lists, code and short lines keep theirs", () => {
	const long = "The function parses durations and returns them in seconds, but";
	expect(unwrap(`${long}\nit fails.\n\n- one\n- two`)).toBe(`${long} it fails.\n\n- one\n- two`);
	expect(unwrap("one\ntwo")).toBe("one\ntwo");
	const code = `\`\`\`\n${long}\nx\n\`\`\``;
	expect(unwrap(code)).toBe(code);
});
