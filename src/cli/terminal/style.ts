import type { Output, Shell } from "../shell.ts";

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

export type Paint = (style: keyof typeof CODES, text: string) => string;

/** Colours on a terminal, unless NO_COLOR asks for none. */
export function paintFor(output: Output, env: Shell["env"]): Paint {
	const plain = !output.isTTY || (env.NO_COLOR ?? "") !== "" || env.TERM === "dumb";
	return plain ? (_style, text) => text : (style, text) => `\x1b[${CODES[style]}m${text}\x1b[0m`;
}

/** How wide tables may be: what goes into a file or another program is never broken. */
export function widthFor(output: Output): number {
	return output.isTTY ? output.columns : Number.POSITIVE_INFINITY;
}

/** What a model or a task wrote may steer the terminal; this leaves only what can be read. */
export function printable(text: string): string {
	return text
		.replaceAll("\r\n", "\n")
		.replaceAll("\t", "    ")
		.replace(/\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?/g, "")
		.replace(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");
}

/** The same for a place that has one line: what was written cannot pass for a line of ours. */
export function oneLine(text: string): string {
	return printable(text).replaceAll("\n", " ");
}

/** How many columns a text takes, colour codes aside. */
export function widthOf(text: string): number {
	let width = 0;
	for (const character of text.replace(/\x1b\[[0-9;]*m/g, "")) width += isWide(character) ? 2 : 1;
	return width;
}

/** Cuts a text without colour codes to a number of columns. */
export function cut(text: string, columns: number): string {
	if (widthOf(text) <= columns) return text;
	let kept = "";
	let width = 0;
	for (const character of text) {
		width += isWide(character) ? 2 : 1;
		if (width > columns - 1) break;
		kept += character;
	}
	return columns > 0 ? `${kept}…` : "";
}

export function pad(text: string, columns: number, side: "left" | "right" = "right"): string {
	const missing = " ".repeat(Math.max(0, columns - widthOf(text)));
	return side === "right" ? text + missing : missing + text;
}

function isWide(character: string): boolean {
	return /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u.test(
		character,
	);
}
