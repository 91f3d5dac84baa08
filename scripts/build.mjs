import { spawnSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { childEnvironment, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { ensureConsole, ensureDependencies } from "./setup.mjs";

/**
 * Makes dist/ out of src/, file by file: Node runs no TypeScript below node_modules, so the package carries JavaScript with
 * its types. In a checkout nothing needs it.
 */
ensureDependencies();
const dist = join(ROOT, "dist");
// A server of this checkout may be serving the console: that is built anew only when it is out of date.
for (const name of existsSync(dist) ? readdirSync(dist) : [])
	if (name !== "web") rmSync(join(dist, name), { recursive: true, force: true });
const code = await runInForeground(
	newEnoughNode(),
	["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"],
	{ cwd: ROOT, env: childEnvironment() },
);
// What is no TypeScript is read, not imported: programs for inside the box, pages.
cpSync(join(ROOT, "src"), dist, {
	recursive: true,
	filter: (path) => ![".ts", ".tsx"].includes(extname(path)) && path !== join(ROOT, "src", "ui"),
});
ensureConsole();
if (code === 0) writeEntry();
process.exit(code);

/**
 * An older Node cannot even read what is imported from `paddock-rollouts/server`: it is asked first, and answered in a sentence. Whatever
 * embed.ts exports is handed on.
 */
function writeEntry() {
	const list = "import(process.argv[1]).then((parts) => console.log(JSON.stringify(Object.keys(parts))))";
	const { stdout, stderr } = spawnSync(newEnoughNode(), ["-e", list, join(dist, "embed.js")], {
		encoding: "utf8",
	});
	if (stdout === "") throw new Error(`dist/embed.js cannot be imported: ${stderr}`);
	writeFileSync(
		join(dist, "server-entry.js"),
		`import { isNodeNewEnough } from "../scripts/node24.mjs";

if (!isNodeNewEnough())
	throw new Error(\`paddock-rollouts/server needs Node 24 or newer, this is \${process.version}; the command and the client run on this one.\`);
export const { ${JSON.parse(stdout).join(", ")} } = await import("./embed.js");
`,
	);
}
