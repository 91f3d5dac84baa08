/** One file of a unified diff, line by line. */
export interface FilePatch {
	path: string;
	added: number;
	removed: number;
	lines: { sign: "+" | "-" | " " | "@"; text: string }[];
}

export function readPatch(patch: string): FilePatch[] {
	const files: FilePatch[] = [];
	let file: FilePatch | null = null;
	for (const line of patch.split("\n")) {
		if (line.startsWith("diff ")) {
			file = { path: "", added: 0, removed: 0, lines: [] };
			files.push(file);
		} else if (file === null) {
			// Words before the first file: nothing to show.
		} else if (file.lines.length === 0 && line.startsWith("--- ")) file.path = nameOf(line, "a/");
		else if (file.lines.length === 0 && line.startsWith("+++ ")) file.path = nameOf(line, "b/") || file.path;
		else addLine(file, line);
	}
	return files.filter((each) => each.lines.length > 0 || each.path !== "");
}

function addLine(file: FilePatch, line: string): void {
	const sign = line[0];
	if (sign === "@") file.lines.push({ sign: "@", text: line });
	else if (sign === "+") {
		file.added += 1;
		file.lines.push({ sign: "+", text: line.slice(1) });
	} else if (sign === "-") {
		file.removed += 1;
		file.lines.push({ sign: "-", text: line.slice(1) });
	} else if (sign === " ") file.lines.push({ sign: " ", text: line.slice(1) });
	else if (line.startsWith("Binary files") || line.startsWith("Only in"))
		file.lines.push({ sign: "@", text: line });
}

/** `--- a/x.sh<tab>time` */
function nameOf(line: string, prefix: string): string {
	const name = line.slice(4).split("\t")[0] ?? "";
	return name === "/dev/null" ? "" : name.startsWith(prefix) ? name.slice(prefix.length) : name;
}
