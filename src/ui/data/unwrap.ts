const WRAPPED_CHARACTERS = 55;

/** A text whose lines were broken by hand, as task files have it: in one piece, where the break meant nothing. */
export function unwrap(text: string): string {
	const fences = text.split(/(^```[\s\S]*?^```[ \t]*$)/m);
	return fences
		.map((part, index) =>
			index % 2 === 1
				? part
				: part.replace(/^([^\n]+)\n(?=[^\s\-*+#>|\d])(?!```)/gm, (whole, line: string) =>
						line.length >= WRAPPED_CHARACTERS && !/^(#|\s{4}|\|)/.test(line) ? `${line} ` : whole,
					),
		)
		.join("");
}
