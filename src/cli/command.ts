import { parseArgs } from "node:util";
import { UsageError } from "../errors.ts";
import type { Shell } from "./shell.ts";
import { didYouMean } from "./suggest.ts";

export interface Option {
	/** How its value is called in the help; absent for a switch. */
	value?: string;
	short?: string;
	help: string;
	/** The words it may be, for shells to complete. */
	choices?: readonly string[];
	/** May be given more than once. */
	multiple?: boolean;
}

/** One word (or two) after `paddock`. */
export interface Command {
	name: string;
	/** What may follow the name, e.g. `<task|folder>…`; empty when nothing may. */
	operands: string;
	summary: string;
	/** More than the summary can say, in full sentences. */
	details?: string;
	options: Record<string, Option>;
	examples: { line: string; says: string }[];
	/** Resolves to the exit code; bad usage throws UsageError. */
	run(args: Arguments, shell: Shell): Promise<number>;
}

const UNITS_MS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** What was given, checked against the command's own list. */
export class Arguments {
	readonly operands: readonly string[];
	readonly #values: ReadonlyMap<string, readonly string[]>;

	constructor(operands: readonly string[], values: ReadonlyMap<string, readonly string[]>) {
		this.operands = operands;
		this.#values = values;
	}

	has(name: string): boolean {
		return this.#values.has(name);
	}

	text(name: string): string | undefined {
		return this.#values.get(name)?.[0];
	}

	all(name: string): readonly string[] {
		return this.#values.get(name) ?? [];
	}

	/** A whole number within limits. */
	whole(name: string, limits: { least: number; most: number }): number | undefined {
		const text = this.text(name);
		if (text === undefined) return undefined;
		const number = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
		if (number >= limits.least && number <= limits.most) return number;
		throw new UsageError(
			`--${name} wants a whole number from ${limits.least} to ${limits.most}, not "${text}".`,
			"bad_option",
		);
	}

	/** Seconds, fractions allowed. */
	seconds(name: string): number | undefined {
		const text = this.text(name);
		if (text === undefined) return undefined;
		const number = text.trim() === "" ? Number.NaN : Number(text);
		if (number > 0 && number <= 86_400) return number;
		throw new UsageError(
			`--${name} wants seconds, more than 0 and at most 86400, not "${text}".`,
			"bad_option",
		);
	}

	number(name: string): number | undefined {
		const text = this.text(name);
		if (text === undefined) return undefined;
		const number = text.trim() === "" ? Number.NaN : Number(text);
		if (Number.isFinite(number)) return number;
		throw new UsageError(`--${name} wants a number, not "${text}".`, "bad_option");
	}

	/** Milliseconds since the epoch: a date, or how long ago. */
	time(name: string): number | undefined {
		const text = this.text(name);
		if (text === undefined) return undefined;
		const ago = /^(\d+(?:\.\d+)?)([smhd])$/.exec(text);
		const at = ago ? Date.now() - Number(ago[1]) * UNITS_MS[ago[2]!]! : Date.parse(text);
		if (Number.isFinite(at)) return at;
		throw new UsageError(
			`--${name} wants a date, or how long ago (30m, 2h, 7d), not "${text}".`,
			"bad_option",
		);
	}

	/** One of a few words. */
	choice<T extends string>(name: string, choices: readonly T[]): T | undefined {
		const text = this.text(name);
		if (text === undefined) return undefined;
		const found = choices.find((choice) => choice === text);
		if (found !== undefined) return found;
		throw new UsageError(
			`--${name} is one of ${choices.join(", ")}, not "${text}".${didYouMean(text, choices)}`,
			"bad_option",
		);
	}
}

export const HELP: Option = { short: "h", help: "show this" };

export function parseArguments(command: Command, argv: readonly string[]): Arguments {
	const options: Record<string, Option> = { ...command.options, help: HELP };
	const { tokens } = parseArgs({
		args: [...argv],
		strict: false,
		allowPositionals: true,
		tokens: true,
		options: Object.fromEntries(
			Object.entries(options).map(([name, option]) => [
				name,
				{
					type: option.value === undefined ? ("boolean" as const) : ("string" as const),
					// Node takes an absent one, not an undefined one.
					...(option.short === undefined ? {} : { short: option.short }),
				},
			]),
		),
	});
	const operands: string[] = [];
	const values = new Map<string, string[]>();
	for (const token of tokens) {
		if (token.kind === "positional") operands.push(token.value);
		if (token.kind !== "option") continue;
		const option = options[token.name];
		if (option === undefined) throw unknownOption(command, token.rawName, options);
		const value = checkValue(token, option);
		const before = values.get(token.name);
		if (before === undefined) values.set(token.name, [value]);
		else if (option.multiple) before.push(value);
		else throw new UsageError(`${token.rawName} was given twice.`, "bad_option");
	}
	if (command.operands === "" && operands.length > 0 && !values.has("help")) {
		throw new UsageError(`"paddock ${command.name}" takes no "${operands[0]}".`, "bad_option");
	}
	return new Arguments(operands, values);
}

function checkValue(
	token: { rawName: string; value: string | undefined; inlineValue: boolean | undefined },
	option: Option,
) {
	if (option.value === undefined) {
		if (token.value === undefined) return "";
		throw new UsageError(`${token.rawName} takes no value.`, "bad_option");
	}
	const looksLikeOption = token.inlineValue !== true && token.value?.startsWith("--") === true;
	if (token.value === undefined || token.value === "" || looksLikeOption) {
		throw new UsageError(`${token.rawName} wants a value: ${option.value}.`, "bad_option");
	}
	return token.value;
}

function unknownOption(command: Command, rawName: string, options: Record<string, Option>): UsageError {
	const known = Object.keys(options);
	const hint = didYouMean(rawName.replace(/^-+/, ""), known, "--");
	return new UsageError(
		`"paddock ${command.name}" has no option ${rawName}.${hint} See: paddock ${command.name} --help`,
		"unknown_option",
	);
}
