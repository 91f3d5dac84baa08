type Schema = Record<string, unknown>;

/** Numbers that only look random: the same seed gives the same requests again. */
export class Dice {
	#state: number;

	constructor(seed: number) {
		this.#state = seed >>> 0;
	}

	/** From 0 up to, not including, `sides`. */
	roll(sides: number): number {
		this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
		return Math.floor((this.#state / 2 ** 32) * sides);
	}

	pick<T>(items: readonly T[]): T {
		return items[this.roll(items.length)]!;
	}
}

/** A value that fits the schema. */
export function valid(schema: Schema, components: Record<string, Schema>, dice: Dice, depth = 0): unknown {
	if (typeof schema.$ref === "string") {
		return valid(components[schema.$ref.split("/").at(-1)!]!, components, dice, depth);
	}
	const choices = (schema.oneOf ?? schema.anyOf) as Schema[] | undefined;
	if (choices) return valid(dice.pick(choices), components, dice, depth);
	if ("const" in schema) return schema.const;
	if (Array.isArray(schema.enum)) return dice.pick(schema.enum);
	const type = Array.isArray(schema.type) ? dice.pick(schema.type as string[]) : schema.type;
	if (type === "object") return validObject(schema, components, dice, depth);
	if (type === "array") {
		const least = Number(schema.minItems ?? 0);
		const length = Math.max(least, depth > 4 ? 0 : dice.roll(3));
		return Array.from({ length }, () => valid(schema.items as Schema, components, dice, depth + 1));
	}
	if (type === "integer" || type === "number") return validNumber(schema, type, dice);
	if (type === "boolean") return dice.roll(2) === 1;
	if (type === "null") return null;
	return validText(schema, dice);
}

function validObject(schema: Schema, components: Record<string, Schema>, dice: Dice, depth: number): unknown {
	const required = (schema.required ?? []) as string[];
	const entries = Object.entries((schema.properties ?? {}) as Record<string, Schema>)
		.filter(([name]) => required.includes(name) || dice.roll(3) === 0)
		.map(([name, value]) => [name, valid(value, components, dice, depth + 1)]);
	return Object.fromEntries(entries);
}

/** Mostly small and whole; now and then as large as it may be, about the size of a column or a timer, or a fine fraction. */
function validNumber(schema: Schema, type: "integer" | "number", dice: Dice): number {
	const least = Number(schema.minimum ?? schema.exclusiveMinimum ?? 1);
	const most = Number(schema.maximum ?? schema.exclusiveMaximum ?? Number.MAX_SAFE_INTEGER);
	const small = Math.min(Math.ceil(least) + 1 + dice.roll(3), most);
	const kind = dice.roll(8);
	if (kind === 0) return "exclusiveMaximum" in schema ? small : most;
	if (kind === 1) return Math.min(Math.max(small, 2 ** 31 + dice.roll(2 ** 20)), most);
	if (type === "number" && kind < 5)
		return Math.min(Math.max(least, 0) + 0.01234567 * (1 + dice.roll(1000)), most);
	return small;
}

/** Some of them mean something somewhere, so that a request now and then passes every check. */
const WORDS = ["noop", "oracle", "http://127.0.0.1:9/v1", "abc"];

function validText(schema: Schema, dice: Dice): string {
	if (String(schema.pattern ?? "").startsWith("^ssh:")) return "ssh:abc";
	// Of all patterns only those for numbers can be met by luck.
	if (String(schema.pattern ?? "").startsWith("^\\d")) return "9".repeat(1 + dice.roll(15));
	return dice.pick(WORDS).slice(0, Number(schema.maxLength ?? 100));
}

const BAD_VALUES: readonly unknown[] = [
	null,
	true,
	-1,
	1e308,
	0.5,
	Number.MAX_SAFE_INTEGER + 1,
	"",
	"\u0000",
	"\ud800",
	"x".repeat(100_000),
	"'; DROP TABLE rollouts; --",
	"../../../etc/passwd",
	[],
	[[[[]]]],
	{},
	{ $ref: "#" },
	JSON.parse('{"__proto__":{"polluted":true}}'),
	{ constructor: { prototype: 1 } },
	{ toString: 1, valueOf: null },
];

/** A copy with one thing wrong somewhere: a value replaced, a field dropped, a field too many. */
export function spoiled(value: unknown, dice: Dice): unknown {
	if (value === null || typeof value !== "object" || dice.roll(4) === 0) return dice.pick(BAD_VALUES);
	if (Array.isArray(value)) {
		if (value.length === 0) return [dice.pick(BAD_VALUES)];
		const index = dice.roll(value.length);
		return value.map((item, at) => (at === index ? spoiled(item, dice) : item));
	}
	const names = Object.keys(value);
	const fields = value as Record<string, unknown>;
	if (names.length === 0 || dice.roll(5) === 0)
		return { ...fields, [dice.pick(["extra", "__proto__", "\u0000"])]: 1 };
	const name = dice.pick(names);
	if (dice.roll(4) === 0)
		return Object.fromEntries(Object.entries(fields).filter(([other]) => other !== name));
	return { ...fields, [name]: spoiled(fields[name], dice) };
}

const BAD_TEXTS: readonly string[] = [
	"",
	"{",
	"nul",
	"[1,",
	'"text"',
	"\u0000",
	"NaN",
	"{'a':1}",
	"\ufeff{}",
	"[".repeat(50_000),
	'{"a":'.repeat(20_000),
];

/** A body that is no JSON, or hardly. */
export function brokenText(dice: Dice): string {
	return dice.pick(BAD_TEXTS);
}
