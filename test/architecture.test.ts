import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path/posix";
import { describe, expect, test } from "vitest";

/** What every folder may use besides what its line says. */
const EVERYWHERE = ["errors.ts", "log.ts", "version.ts"];

/**
 * What each folder (or file) of src/ may import, besides itself: a folder means all of it, a path that one file.
 * This table is the architecture; docs/architecture.md shows it to people.
 */
const STAGES = [
	"model",
	"task",
	"host",
	"sandbox",
	"agent",
	"gateway",
	"policy",
	"conversation",
	"verify",
	"store",
	"credential",
	"live",
	"queue",
	"export",
];
const MAY_IMPORT: Record<string, readonly string[]> = {
	model: [],
	task: ["model"],
	host: ["model"],
	sandbox: ["model", "host"],
	agent: ["model", "host/process.ts", "sandbox/sandbox.ts"],
	gateway: ["model"],
	policy: ["model"],
	conversation: ["model", "agent/agent.ts"],
	verify: ["model", "sandbox/sandbox.ts"],
	store: ["model"],
	credential: ["model", "store/credentials.ts", "store/place.ts", "store/store.ts"],
	live: ["model", "store/postgres/connection.ts", "store/postgres/listener.ts"],
	queue: [
		"model",
		"host/process.ts",
		"store/store.ts",
		"store/sqlite/statements.ts",
		"store/postgres/connection.ts",
		"store/postgres/outage.ts",
	],
	export: ["model", "store/store.ts", "store/trace/trace-log.ts"],
	kept: ["model", "agent", "gateway", "store", "credential", "host"],
	rollout: STAGES,
	api: ["model"],
	"backends.ts": ["model", "sandbox", "host/hosts.ts", "config.ts"],
	"machine.ts": [...STAGES, "rollout", "config.ts", "backends.ts"],
	verbs: [
		...["model", "store", "export", "agent/agent.ts", "gateway/catalog.ts", "policy/names.ts"],
		...["queue/queue.ts", "sandbox/sandbox.ts", "config.ts", "credential/capture.ts", "credential/login.ts"],
		"credential/planted/confine.ts",
		...["host/hosts.ts", "host/visit.ts"],
		"live",
	],
	"paddock.ts": [...STAGES, "kept", "rollout", "config.ts", "machine.ts", "verbs"],
	server: ["api", "model", "paddock.ts", "mcp", "openenv"],
	tools: ["api", "model", "export/result.ts", "gateway/catalog.ts", "paddock.ts"],
	mcp: ["model", "tools", "paddock.ts"],
	openenv: ["api", "model", "tools", "config.ts", "paddock.ts"],
	client: ["api", "model"],
	ui: ["client", "model"],
	cli: [
		...[
			"model",
			"client",
			"config.ts",
			"paddock.ts",
			"store/store.ts",
			"store/group-summary.ts",
			"backends.ts",
			"agent/agent.ts",
			"gateway/catalog.ts",
			"gateway/engines/examine.ts",
			"gateway/upstream/reach.ts",
			"host/binary.ts",
			"sandbox/sandbox.ts",
			"sandbox/e2b/template.ts",
			"task",
		],
		...[
			"policy/names.ts",
			"policy/server.ts",
			"server/serve.ts",
			"server/doors.ts",
			"mcp/stdio.ts",
			"export/export.ts",
		],
	],
	"main.ts": ["cli/cli.ts", "cli/shell.ts"],
	"config.ts": ["model"],
	"errors.ts": ["model"],
	"log.ts": [],
	"version.ts": [],
	"embed.ts": ["model", "task", "agent", "conversation", "config.ts", "paddock.ts", "server"],
};

const ROOT = new URL("../src/", import.meta.url).pathname;
const sourceFiles = readdirSync(ROOT, { recursive: true, encoding: "utf8" })
	.map((path) => path.replaceAll("\\", "/"))
	.filter((path) => /\.(ts|tsx|mts|js|mjs)$/.test(path))
	.sort();

test.each(sourceFiles)("src/%s imports only what its folder may", (file) => {
	const refused = relativeImports(readFileSync(join(ROOT, file), "utf8"))
		.map((specifier) => relative(ROOT, join(ROOT, dirname(file), specifier)))
		.filter((target) => !isAllowed(file, target));
	expect(refused).toEqual([]);
});

test("every folder of src/ has its line in the table", () => {
	const owners = new Set(sourceFiles.map(ownerOf));
	expect([...owners].filter((owner) => !(owner in MAY_IMPORT))).toEqual([]);
});

test("every line of the table is there, folder or file, and so is all that it names", () => {
	const named = [...Object.keys(MAY_IMPORT), ...Object.values(MAY_IMPORT).flat(), ...EVERYWHERE];
	expect([...new Set(named)].filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

test("the table in docs/architecture.md is this one", () => {
	const text = readFileSync(new URL("../docs/architecture.md", import.meta.url), "utf8");
	const rows = [...text.matchAll(/^\| `([^`]+)` \|[^|]*\| ([^|]*) \|$/gm)].map((match) => [
		match[1]!.replace(/\/$/, ""),
		[...match[2]!.matchAll(/`([^`]+)`/g)].map((name) => name[1]!.replace(/\/$/, "")).sort(),
	]);
	const expected = Object.entries(MAY_IMPORT).map(([owner, names]) => [owner, [...names].sort()]);
	expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(expected));
});

describe("the reader of imports", () => {
	test("finds from, bare and dynamic imports, and re-exports, over several lines", () => {
		const source = [
			'import { a } from "./a.ts";',
			"import type {\n\tB,\n\tC,\n} from '../b/b.ts';",
			'import "./side-effect.ts";',
			'export * from "./again.ts";',
			'const later = await import("../later/later.ts");',
			"const page = import(`./page.ts`);",
			'import fs from "node:fs";',
		].join("\n");
		expect(relativeImports(source)).toEqual([
			"./a.ts",
			"../b/b.ts",
			"./side-effect.ts",
			"./again.ts",
			"../later/later.ts",
			"./page.ts",
		]);
	});

	test("passes over comments", () => {
		expect(
			relativeImports('// import "./a.ts"\n/* from "./b.ts" */\n/** as in `from "./c.ts"` */\n'),
		).toEqual([]);
	});
});

describe("the table", () => {
	test("lets a folder import itself and what its line names, whole folders or single files", () => {
		expect(isAllowed("sandbox/local/open.ts", "sandbox/frames.ts")).toBe(true);
		expect(isAllowed("sandbox/local/bwrap.ts", "model/task.ts")).toBe(true);
		expect(isAllowed("sandbox/local/bwrap.ts", "errors.ts")).toBe(true);
		expect(isAllowed("verify/commands.ts", "sandbox/sandbox.ts")).toBe(true);
	});

	test("refuses a neighbour's implementation, and the way back up", () => {
		expect(isAllowed("verify/commands.ts", "sandbox/local/bwrap.ts")).toBe(false);
		expect(isAllowed("model/task.ts", "sandbox/sandbox.ts")).toBe(false);
		expect(isAllowed("gateway/relay.ts", "rollout/run.ts")).toBe(false);
		expect(isAllowed("client/client.ts", "paddock.ts")).toBe(false);
		expect(isAllowed("errors.ts", "config.ts")).toBe(false);
	});
});

function isAllowed(file: string, target: string): boolean {
	const owner = ownerOf(file);
	if (ownerOf(target) === owner) return true;
	// Data beside the code (package.json, schemas, a compiled page) is read, not imported from a stage.
	if (target.startsWith("../")) return !/\.(ts|tsx)$/.test(target);
	if (EVERYWHERE.includes(target)) return true;
	return (MAY_IMPORT[owner] ?? []).some((allowed) => target === allowed || ownerOf(target) === allowed);
}

/** The folder directly below src/, or the file itself when it lies there. */
function ownerOf(path: string): string {
	return path.split("/")[0]!;
}

function relativeImports(source: string): string[] {
	const code = withoutComments(source);
	const found = code.matchAll(/(?:\bfrom\s*|\bimport\s*|\bimport\s*\(\s*)(["'`])(\.{1,2}\/[^"'`]+)\1/g);
	return [...found].map((match) => match[2]!);
}

/** Comments out, strings kept: a `//` inside a string is none. */
function withoutComments(source: string): string {
	return source.replace(
		/("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
		(_match, string: string | undefined) => string ?? "",
	);
}

test("every file that docs/architecture.md answers with is there", () => {
	const page = readFileSync(join(ROOT, "../docs/architecture.md"), "utf8");
	const [, table = ""] = page.split("## Where is …?");
	const answers = table
		.split("\n## ")[0]!
		.split("\n")
		.filter((line) => line.startsWith("| Where"));
	expect(answers.length).toBeGreaterThanOrEqual(10);
	const paths = answers.flatMap((line) =>
		[...line.matchAll(/`([a-z-]+\/[\w./-]*)`/g)].map(([, path]) => path!),
	);
	expect(paths.length).toBeGreaterThanOrEqual(answers.length);
	expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});
