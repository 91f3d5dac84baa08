import { expect, test } from "vitest";
import { cutField } from "../../src/gateway/protocols/cut.ts";

test.each([
	["first", '{"x":1,"b":2}', '{"b":2}'],
	["last", '{"a":1,"x":[1,[2,"]"]]}', '{"a":1}'],
	["in the middle", '{"a":1,"x":{"y":"}\\"{"},"b":2}', '{"a":1,"b":2}'],
	["alone", '{"x":null}', "{}"],
	["a string", '{"x":"a\\\\","b":2}', '{"b":2}'],
	["spaced out", '{"a": 1, "x" : [ 1, 2 ] , "b": 2}', '{"a": 1, "b": 2}'],
	["spaced out and last", '{"a": 1, "x": true }', '{"a": 1}'],
	["at two depths", '{"x":1,"a":{"b":2,"x":[3]},"c":4}', '{"a":{"b":2},"c":4}'],
	["absent", '{"a":1.0}', '{"a":1.0}'],
])("a field that is %s goes, and nothing else", (_where, json, expected) => {
	const cut = cutField(json, "x");
	expect(cut).toBe(expected);
	expect(JSON.parse(cut)).toBeTypeOf("object");
});

test("a field repeated without end is refused instead of cut out a million times", () => {
	const json = `{${'"x":1,'.repeat(1_000_000)}"y":2}`;
	expect(() => cutField(json, "x")).toThrow(/without end/);
});

test("text that only looks like the field stays", () => {
	const json = JSON.stringify({ content: 'he said "x":1, and {"x":[2]}', list: ["x", "y"], y: "x" });
	expect(cutField(json, "x")).toBe(json);
});

test("for objects of every shape the result reads like the object without the field", () => {
	const values: unknown[] = [1, -0.5, "", 'q"\\', null, true, [], {}, [{ a: "x" }], { b: [1, "]"] }];
	for (const value of values)
		for (const rest of values)
			for (const object of [
				{ x: value, r: rest },
				{ r: rest, x: value },
				{ r: rest, x: value, s: rest },
			])
				for (const indent of [0, 1]) {
					const { x: _x, ...without } = object;
					expect(JSON.parse(cutField(JSON.stringify(object, null, indent), "x"))).toEqual(without);
				}
});
