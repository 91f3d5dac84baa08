import type { Task } from "./task.ts";

/** What Python tests are written with, by the names they import. Any other name may be what the agent is to write. */
const LIBRARIES = new Set(
	`aiohttp attr boto3 bs4 cv2 dateutil django docx fastapi flask freezegun httpx hypothesis jinja2 jsonschema lxml matplotlib mock
	networkx nose numpy openpyxl pandas parameterized PIL psutil psycopg psycopg2 pydantic pytest pytest_asyncio pytest_mock redis
	requests requests_mock responses rich scipy selenium sklearn sqlalchemy starlette sympy tabulate tomli toml torch tqdm transformers
	yaml`.split(/\s+/),
);

/**
 * The libraries without which a hidden Python test cannot even start: imported in its outermost lines, outside of texts. What the
 * task speaks of elsewhere is left out, since the agent may have been given it, or asked for it: to remove it would be a way out.
 */
export function librariesOf(task: Task): string[] {
	const imported = task.tests
		.filter(({ path }) => path.endsWith(".py"))
		.flatMap(({ content }) => [...importedIn(content)]);
	const elsewhere = [
		task.instruction,
		...task.setup,
		...task.files.flatMap(({ path, content }) => [path, content]),
	];
	const own = task.tests.map(({ path }) => path);
	return [...new Set(imported)].filter((name) => {
		const word = new RegExp(`\\b${name}\\b`, "i");
		return LIBRARIES.has(name) && ![...elsewhere, ...own].some((text) => word.test(text));
	});
}

function* importedIn(content: string): Iterable<string> {
	const code = content.replaceAll(/'''[\s\S]*?'''|"""[\s\S]*?"""/g, "");
	for (const [, name] of code.matchAll(/^from[ \t]+(\w+)[\w.]*[ \t]+import\b/gm)) yield name!;
	for (const [, names] of code.matchAll(/^import[ \t]+([^\n;#]+)/gm))
		for (const name of names!.split(",")) yield name.trim().split(/[.\s]/)[0]!;
}
