import { makeVisible, shorten } from "../data/hostile.ts";

/** What a program printed, as text. */
export function Output({ text, label }: { text: string; label?: string }) {
	if (text === "") return null;
	return (
		<div>
			{label !== undefined && <small className="soft">{label}</small>}
			<pre className="output" tabIndex={0}>
				{makeVisible(shorten(text).text)}
			</pre>
		</div>
	);
}
