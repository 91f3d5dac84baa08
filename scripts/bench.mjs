import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { childEnvironment, isNodeNewEnough, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { ensureReady } from "./setup.mjs";

const DOCUMENT = join(ROOT, "docs", "benchmarks.md");
const [name] = process.argv.slice(2);

if (!isNodeNewEnough()) {
	ensureReady();
	const args = ["scripts/bench.mjs", ...process.argv.slice(2)];
	process.exit(await runInForeground(newEnoughNode(), args, { cwd: ROOT, env: childEnvironment() }));
}

const known = readdirSync(join(ROOT, "bench"))
	.filter((file) => file.endsWith(".ts"))
	.map((file) => file.slice(0, -".ts".length));
if (!known.includes(name)) {
	process.stderr.write(`Which benchmark? npm run bench -- <${known.join("|")}>\n`);
	process.exit(2);
}

const module = await import(pathToFileURL(join(ROOT, "bench", `${name}.ts`)).href);
const bench = module[`bench${name[0].toUpperCase()}${name.slice(1)}`];
const lines = [];
await bench((text) => {
	lines.push(text);
	process.stdout.write(`${text}\n`);
});
writeSection(name, lines.join("\n"));

/** Each benchmark owns one section, between its two markers. */
function writeSection(section, text) {
	const start = `<!-- ${section}: written by npm run bench -- ${section} -->`;
	const end = `<!-- ${section}: end -->`;
	const body = `${start}\n## ${section}\n\n${text.trim()}\n${end}`;
	const before = existsSync(DOCUMENT) ? readFileSync(DOCUMENT, "utf8") : "# Benchmarks\n";
	const from = before.indexOf(start);
	const to = before.indexOf(end);
	const after =
		from >= 0 && to > from
			? before.slice(0, from) + body + before.slice(to + end.length)
			: `${before.trimEnd()}\n\n${body}\n`;
	writeFileSync(DOCUMENT, after);
}
