import { spawn } from "node:child_process";
import { childEnvironment, newEnoughNode, ROOT } from "./node24.mjs";
import { ensureDependencies } from "./setup.mjs";

ensureDependencies();

/** Everything that must hold besides the tests. Each check is one program that says nothing when all is well. */
const CHECKS = [
	{ name: "biome", args: ["node_modules/@biomejs/biome/bin/biome", "check", "--diagnostic-level=warn", "."] },
	{ name: "types", args: ["node_modules/typescript/bin/tsc", "--noEmit"] },
	{ name: "types of the console", args: ["node_modules/typescript/bin/tsc", "--noEmit", "-p", "src/ui"] },
	{ name: "dead code", args: ["node_modules/knip/bin/knip.js", "--no-progress"] },
	{ name: "schemas", args: ["src/server/print-openapi.ts", "--check"] },
	{ name: "lock file", args: ["scripts/check-lock.mjs"] },
];

let failed = 0;
for (const check of CHECKS) {
	const startedAt = performance.now();
	const { code, output } = await run(check.args);
	const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
	process.stdout.write(`${code === 0 ? "ok    " : "FAILED"} ${check.name} (${seconds} s)\n`);
	if (code === 0) continue;
	failed += 1;
	process.stdout.write(`${output.trim()}\n`);
}
process.exit(failed === 0 ? 0 : 1);

function run(args) {
	const child = spawn(newEnoughNode(), args, {
		cwd: ROOT,
		env: childEnvironment(),
		stdio: ["ignore", "pipe", "pipe"],
	});
	let output = "";
	child.stdout.on("data", (chunk) => {
		output += chunk;
	});
	child.stderr.on("data", (chunk) => {
		output += chunk;
	});
	return new Promise((resolve) => {
		child.once("error", (error) => resolve({ code: 1, output: error.message }));
		child.once("close", (code) => resolve({ code: code ?? 1, output }));
	});
}
