import { cpSync, rmSync } from "node:fs";
import { extname, join } from "node:path";
import { childEnvironment, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { ensureConsole, ensureDependencies } from "./setup.mjs";

/**
 * Makes dist/ out of src/, file by file: Node runs no TypeScript below node_modules, so the package carries JavaScript with
 * its types. In a checkout nothing needs it.
 */
ensureDependencies();
const dist = join(ROOT, "dist");
rmSync(dist, { recursive: true, force: true });
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
process.exit(code);
