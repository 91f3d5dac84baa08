import { Fragment, type ReactNode } from "react";
import { makeVisible, shorten } from "./hostile.ts";

/**
 * The little of markdown that agents use: code, emphasis, headings, lists. It makes elements out of text and never
 * reads HTML, so whatever an agent writes stays text. A link shows its address and leads nowhere by itself; a picture
 * is its words.
 */
export function Markdown({ text }: { text: string }) {
	return <div className="markdown">{blocksOf(shorten(makeVisible(text)).text)}</div>;
}

function blocksOf(text: string): ReactNode[] {
	const blocks: ReactNode[] = [];
	// A fence that was never closed runs to the end, as it does while it streams.
	const parts = text.split(/^```([^\n`]*)\n([\s\S]*?)(?:^```[ \t]*$|$(?![\s\S]))/m);
	for (let index = 0; index < parts.length; index += 3) {
		blocks.push(...proseOf(parts[index] ?? "", `p${index}`));
		const code = parts[index + 2];
		if (code !== undefined)
			blocks.push(
				<pre key={`c${index}`} className="code">
					{code.replace(/\n$/, "")}
				</pre>,
			);
	}
	return blocks;
}

function proseOf(text: string, key: string): ReactNode[] {
	const paragraphs = text.split(/\n{2,}/).filter((paragraph) => paragraph.trim() !== "");
	return paragraphs.map((paragraph, index) => paragraphOf(paragraph, `${key}-${index}`));
}

function paragraphOf(text: string, key: string): ReactNode {
	const lines = text.split("\n");
	const heading = /^(#{1,6}) (.*)$/.exec(lines[0] ?? "");
	if (heading && lines.length === 1)
		return (
			<p key={key} className="heading">
				{inlineOf(heading[2]!)}
			</p>
		);
	const isItem = (line: string) => /^\s*([-*+]|\d+[.)]) /.test(line);
	if (lines.every(isItem))
		return (
			<ul key={key}>
				{lines.map((line, index) => (
					// biome-ignore lint/suspicious/noArrayIndexKey: lines of one text keep their places
					<li key={index}>{inlineOf(line.replace(/^\s*([-*+]|\d+[.)]) /, ""))}</li>
				))}
			</ul>
		);
	return (
		<p key={key}>
			{lines.map((line, index) => (
				// biome-ignore lint/suspicious/noArrayIndexKey: lines of one text keep their places
				<Fragment key={index}>
					{index > 0 && <br />}
					{inlineOf(line)}
				</Fragment>
			))}
		</p>
	);
}

function inlineOf(text: string): ReactNode[] {
	const pieces = text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*|!?\[[^\]\n]*\]\([^)\s]*\))/);
	return pieces.map((piece, index) => {
		const key = String(index);
		if (index % 2 === 0) return piece;
		if (piece.startsWith("`")) return <code key={key}>{piece.slice(1, -1)}</code>;
		if (piece.startsWith("**")) return <strong key={key}>{piece.slice(2, -2)}</strong>;
		const [, label = "", address = ""] = /^!?\[([^\]]*)\]\(([^)]*)\)$/.exec(piece) ?? [];
		return (
			<span key={key} className="address">
				{label} <code>{address}</code>
			</span>
		);
	});
}
