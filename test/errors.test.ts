import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const SRC = new URL("../src/", import.meta.url).pathname;
const sources = readdirSync(SRC, { recursive: true, encoding: "utf8" })
	.filter((path) => /\.tsx?$/.test(path) && !path.startsWith("ui"))
	.map((path) => readFileSync(join(SRC, path), "utf8"));

const documented = [
	...readFileSync(new URL("../docs/errors.md", import.meta.url), "utf8").matchAll(/^\| `(\w+)` \|/gm),
].map((match) => match[1]!);

test("every code that can be thrown is explained in docs/errors.md", () => {
	const thrown = new Set(sources.flatMap(codesIn));
	expect(thrown.size).toBeGreaterThan(50);
	expect([...thrown].filter((code) => !documented.includes(code)).sort()).toEqual([]);
});

test("docs/errors.md explains each code once, and none that does not exist", () => {
	expect(documented.filter((code, index) => documented.indexOf(code) !== index)).toEqual([]);
	expect(documented.filter((code) => !sources.some((source) => source.includes(`"${code}"`)))).toEqual([]);
});

/** The codes in `RolloutError(boundary, code`, `within(boundary, code` and `UsageError(message, code)`. */
function codesIn(source: string): string[] {
	const classified = source.matchAll(
		/\b(?:RolloutError|within|UpstreamFault)(?:<[^>]*>)?\(\s*"(\w+)"(?:,\s*"([a-z0-9_]+)")?/g,
	);
	const usage = source.matchAll(/\bUsageError\(/g);
	return [
		...[...classified].flatMap((match) => {
			const isFault = match[0].startsWith("UpstreamFault");
			return (isFault ? match[1] : match[2]) ?? [];
		}),
		...[...usage].flatMap((match) => {
			const last = /,\s*"([a-z0-9_]+)",?\s*$/.exec(argumentsAt(source, match.index + match[0].length));
			return last?.[1] ?? [];
		}),
	];
}

/** The text up to the closing bracket that belongs to the call; brackets in strings do not count. */
function argumentsAt(source: string, start: number): string {
	let depth = 1;
	let end = start;
	for (const token of source
		.slice(start)
		.matchAll(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|[()]/g)) {
		if (token[0] === "(") depth += 1;
		if (token[0] === ")") depth -= 1;
		end = start + token.index;
		if (depth === 0) break;
	}
	return source.slice(start, end);
}
