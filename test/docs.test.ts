import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const filesBelow = (folder: string, ending: RegExp) =>
	readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
		.filter((path) => ending.test(path) && !path.includes("node_modules"))
		.map((path) => join(folder, path));

/** Marks between processes of ours, which nobody sets by hand. */
const INTERNAL = ["PADDOCK_AGENT_ID", "PADDOCK_BOX", "PADDOCK_COMMAND", "PADDOCK_SERVER_MARK"];

test("docs/configuration.md names every environment variable that is read, and no other", () => {
	const name = /\b(?:PADDOCK|VLLM|OPENAI|HF_ROUTER|E2B|OTEL|AWS|DOCKER|XDG)_[A-Z0-9_]*[A-Z0-9]\b/g;
	const namesIn = (text: string) => text.match(name) ?? [];
	const sources = filesBelow("src", /\.(ts|js)$/).filter((path) => !path.startsWith("src/ui/"));
	const isRead = new Set(
		sources.flatMap((path) => namesIn(read(path))).filter((each) => !INTERNAL.includes(each)),
	);
	// A comment may name a family by its beginning.
	for (const family of ["PADDOCK_SSH"]) isRead.delete(family);
	expect([...new Set(namesIn(read("docs/configuration.md")))].sort()).toEqual([...isRead].sort());
});

test("docs/README.md links every page", () => {
	const linked = [...read("docs/README.md").matchAll(/\]\(([\w-]+\.md)\)/g)].map((match) => match[1]);
	const pages = readdirSync(join(ROOT, "docs")).filter(
		(page) => page.endsWith(".md") && page !== "README.md",
	);
	expect(linked.sort()).toEqual(pages.sort());
});

const PAGES = [
	...readdirSync(ROOT).filter((name) => name.endsWith(".md")),
	...["docs", "examples", "docker"].flatMap((folder) => filesBelow(folder, /\.md$/)),
];

test.each(PAGES)("%s links only what exists", (page) => {
	const links = [...read(page).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map((match) => match[1]!);
	const files = links.filter((link) => !/^[a-z]+:/.test(link));
	expect(files.filter((link) => !existsSync(join(ROOT, dirname(page), link)))).toEqual([]);
});
