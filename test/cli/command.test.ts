import { expect, test } from "vitest";
import { type Command, parseArguments } from "../../src/cli/command.ts";
import { helpOf } from "../../src/cli/help.ts";

const command: Command = {
	name: "sample",
	operands: "<thing>…",
	summary: "do something",
	options: {
		number: { short: "n", value: "<number>", help: "how many" },
		label: { value: "<text>", help: "a label", multiple: true },
		json: { help: "as JSON" },
	},
	examples: [{ line: "paddock sample x", says: "does it to x" }],
	run: async () => 0,
};
const parse = (...argv: string[]) => parseArguments(command, argv);

test("options may stand before, between and after the operands, short or long, with = or without", () => {
	const args = parse("a", "-n", "3", "b", "--label=x", "--label", "y", "--json", "c");
	expect(args.operands).toEqual(["a", "b", "c"]);
	expect(args.whole("number", { least: 1, most: 9 })).toBe(3);
	expect(args.all("label")).toEqual(["x", "y"]);
	expect(args.has("json")).toBe(true);
});

test("after -- everything is an operand", () => {
	expect(parse("--", "--json").operands).toEqual(["--json"]);
});

test("an unknown option names the nearest one and the help", () => {
	expect(() => parse("--jsno")).toThrow('"paddock sample" has no option --jsno. Did you mean "--json"?');
	expect(() => parse("--zzz")).toThrow("See: paddock sample --help");
	expect(() => parse("-x")).toThrow("has no option -x");
});

test("a missing value, a value for a switch and a repeated option are refused", () => {
	expect(() => parse("--number")).toThrow("--number wants a value: <number>.");
	expect(() => parse("--number", "--json")).toThrow("--number wants a value");
	expect(() => parse("--json=yes")).toThrow("--json takes no value.");
	expect(() => parse("-n", "1", "-n", "2")).toThrow("-n was given twice.");
});

test("numbers are whole and within their limits, seconds positive, words among their choices", () => {
	const limits = { least: 1, most: 9 };
	for (const bad of ["0", "10", "1.5", "many", "1e1"]) {
		expect(() => parse("-n", bad).whole("number", limits)).toThrow("whole number from 1 to 9");
	}
	for (const bad of ["0", "-1", "soon", "NaN", "Infinity"]) {
		expect(() => parse(`--label=${bad}`).seconds("label")).toThrow("wants seconds");
	}
	expect(parse("--label=0.5").seconds("label")).toBe(0.5);
	expect(() => parse("--label=dcoker").choice("label", ["local", "docker"])).toThrow(
		'Did you mean "docker"?',
	);
});

test("operands are refused where a command takes none", () => {
	expect(() => parseArguments({ ...command, operands: "" }, ["stray"])).toThrow('takes no "stray"');
});

test("the help shows usage, every option and the examples", () => {
	const help = helpOf(command);
	expect(help).toContain("Usage: paddock sample <thing>… [options]");
	expect(help).toMatch(/-n, --number <number> +how many/);
	expect(help).toMatch(/ {4}--json +as JSON/);
	expect(help).toContain("paddock sample x\n      does it to x");
});
