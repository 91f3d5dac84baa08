import { useMemo } from "react";
import { makeVisible } from "../data/hostile.ts";
import { readPatch } from "../data/patch.ts";

const CLASSES = { "+": "add", "-": "remove", " ": "", "@": "place" };
/** A patch may be a whole repository; people read its beginning. */
const SHOWN_LINES = 2000;

export function Patch({ text }: { text: string }) {
	const files = useMemo(() => readPatch(text), [text]);
	if (files.length === 0) return <p className="soft">The agent changed nothing.</p>;
	return (
		<div className="stack">
			{files.map((file) => (
				<details className="fold" key={file.path} open>
					<summary>
						<code>{makeVisible(file.path)}</code> <span className="good">+{file.added}</span>{" "}
						<span className="bad">−{file.removed}</span>
					</summary>
					<div className="patch">
						{file.lines.slice(0, SHOWN_LINES).map((line, index) => (
							// biome-ignore lint/suspicious/noArrayIndexKey: lines of one patch keep their places
							<div key={index} className={CLASSES[line.sign]}>
								{line.sign === "@" ? "" : line.sign} {makeVisible(line.text)}
							</div>
						))}
						{file.lines.length > SHOWN_LINES && (
							<div className="place">{file.lines.length - SHOWN_LINES} more lines</div>
						)}
					</div>
				</details>
			))}
		</div>
	);
}
