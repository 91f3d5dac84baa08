import { pad, widthOf } from "./style.ts";

export interface Column {
	title: string;
	align?: "left" | "right";
}

/** What of a row does not fit beside the rest stands below it, this far in. */
const INDENT = "    ";

/**
 * Columns as wide as their widest cell, two blanks apart, without trailing blanks. In a terminal too narrow for them a row
 * takes several lines, broken between columns: nothing is torn or cut, so ids can be copied.
 */
export function layOut(
	columns: readonly Column[],
	rows: readonly (readonly string[])[],
	width = Number.POSITIVE_INFINITY,
): string[] {
	const table = [columns.map((column) => column.title), ...rows];
	const widths = columns.map((_, index) => Math.max(...table.map((row) => widthOf(row[index] ?? ""))));
	const parts = breakUp(widths, width);
	return table.flatMap((row) =>
		parts.map((part, line) => {
			const cells = part.map((index) =>
				pad(row[index] ?? "", widths[index]!, columns[index]!.align === "right" ? "left" : "right"),
			);
			return `${line === 0 ? "" : INDENT}${cells.join("  ")}`.trimEnd();
		}),
	);
}

/** Which columns stand on the first line of a row, which on the next. */
function breakUp(widths: readonly number[], width: number): number[][] {
	const parts: number[][] = [[]];
	let used = 0;
	for (const [index, own] of widths.entries()) {
		const part = parts.at(-1)!;
		const taken = part.length === 0 ? used + own : used + 2 + own;
		if (taken <= width || part.length === 0) {
			part.push(index);
			used = taken;
		} else {
			parts.push([index]);
			used = INDENT.length + own;
		}
	}
	return parts;
}
