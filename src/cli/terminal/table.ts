import { pad, widthOf } from "./style.ts";

export interface Column {
	title: string;
	align?: "left" | "right";
}

/** Columns as wide as their widest cell, two blanks apart, without trailing blanks. */
export function layOut(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
	const lines = [columns.map((column) => column.title), ...rows];
	const widths = columns.map((_, index) => Math.max(...lines.map((line) => widthOf(line[index] ?? ""))));
	return lines.map((line) =>
		columns
			.map((column, index) =>
				pad(line[index] ?? "", widths[index]!, column.align === "right" ? "left" : "right"),
			)
			.join("  ")
			.trimEnd(),
	);
}
