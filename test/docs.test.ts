import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const filesBelow = (folder: string, ending: RegExp) =>
	readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
		.filter((path) => ending.test(path) && !path.includes("node_modules"))
		.map((path) => join(folder, path));

/** Marks between processes of ours, which nobody sets by hand. */
const INTERNAL = [
	...["PADDOCK_AGENT_ID", "PADDOCK_BOX", "PADDOCK_COMMAND", "PADDOCK_SERVER_MARK", "BOX_HOME"],
	"OPENCODE_CONFIG_CONTENT",
];
/** What every program reads. */
const USUAL = ["HOME", "PATH", "TMPDIR"];

test("docs/configuration.md names every environment variable that is read, and no other", () => {
	const family = /\b(?:PADDOCK|VLLM|OPENAI|HF_ROUTER|E2B|OTEL|AWS|DOCKER|XDG)_[A-Z0-9_]*[A-Z0-9]\b/g;
	// What a schema of settings has as a key, and what is taken out of an environment, whatever it is called.
	const taken = /(?<=^\t)[A-Z][A-Z0-9_]+(?=: z\b)|(?<=\benv\.)[A-Z][A-Z0-9_]+/gm;
	const sources = filesBelow("src", /\.(ts|js)$/).filter((path) => !path.startsWith("src/ui/"));
	const isRead = sources
		.map(read)
		.flatMap((text) => [...(text.match(family) ?? []), ...(text.match(taken) ?? [])])
		.filter((each) => !INTERNAL.includes(each) && !USUAL.includes(each));
	const isNamed = read("docs/configuration.md").match(/(?<=`)[A-Z][A-Z0-9_]+(?=[`=])/g) ?? [];
	expect([...new Set(isNamed)].sort()).toEqual([...new Set(isRead)].sort());
});

test("docs/README.md links every page", () => {
	const linked = [...read("docs/README.md").matchAll(/\]\(([\w-]+\.md)\)/g)].map((match) => match[1]);
	const pages = readdirSync(join(ROOT, "docs")).filter(
		(page) => page.endsWith(".md") && page !== "README.md",
	);
	expect(linked.sort()).toEqual(pages.sort());
});

test("docs/live-scenarios.md has every scenario, and names only tests that exist", () => {
	const page = read("docs/live-scenarios.md");
	const files = new Map(
		[...page.matchAll(/^\| (\S+) \| `(test\/\S+)` \|$/gm)].map(([, name, path]) => [name, path!]),
	);
	const named = [...page.matchAll(/([\w/-]+): “([^”]+)”/g)].map(([, name, title]) => ({
		name,
		title: title!,
	}));
	const missing = named.filter(({ name, title }) => !read(files.get(name)!).includes(title));
	expect(missing).toEqual([]);
	const numbers = [...page.matchAll(/^\| (\d+) \|/gm)].map(([, number]) => Number(number));
	expect(numbers).toEqual(Array.from({ length: 73 }, (_, index) => index + 1));
});

const PAGES = [
	...readdirSync(ROOT).filter((name) => name.endsWith(".md")),
	...["docs", "examples", "docker"].flatMap((folder) => filesBelow(folder, /\.md$/)),
];

/** To files; what a link has behind # is not looked at. */
function linksOf(page: string): string[] {
	const links = [...read(page).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map((match) => match[1]!);
	return links.filter((link) => !/^[a-z]+:/.test(link));
}

test.each(PAGES)("%s links only what exists", (page) => {
	expect(linksOf(page).filter((link) => !existsSync(join(ROOT, dirname(page), link)))).toEqual([]);
});

test("in the package, too, every page links only what comes along; pictures stay behind", async () => {
	const pack = ["pack", "--dry-run", "--json", "--ignore-scripts"];
	const { stdout } = await promisify(execFile)("npm", pack, { cwd: ROOT, maxBuffer: 10_000_000 });
	const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }];
	const packed = files.map(({ path }) => path);
	expect(packed.filter((path) => path.startsWith("docs/") && !path.endsWith(".md"))).toEqual([]);
	const dead = packed
		.filter((path) => path.endsWith(".md"))
		.flatMap((page) => linksOf(page).map((link) => ({ page, target: join(dirname(page), link) })))
		.filter(({ target }) => !packed.some((path) => path === target || path.startsWith(`${target}/`)))
		.filter(({ target }) => !target.startsWith("docs/screenshots"));
	expect(dead).toEqual([]);
});
