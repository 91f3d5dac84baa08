import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { childEnvironment, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { ensureReady } from "./setup.mjs";

ensureReady();

const out = mkdtempSync(join(tmpdir(), "paddock-demo-"));
process.stderr.write(
	"The real OpenCode agent solves every task of examples/tasks, each in a sandbox of its own.\nThe model is scripted (policy oracle): no account, no key, no network.\n\n",
);
const code = await runInForeground(
	newEnoughNode(),
	["bin/paddock.mjs", "run", "examples/tasks", "--policy", "oracle"].concat(
		["--concurrency", String(availableParallelism()), "--out", out],
		process.argv.slice(2),
	),
	{ cwd: ROOT, env: childEnvironment() },
);
const results = readResults(out);
rmSync(out, { recursive: true, force: true });

const solved = results.filter((result) => result.reward === 1);
const example = (solved[0] ?? results[0])?.rollout_id ?? "<id>";
if (code === 0) {
	process.stdout.write(`
${solved.length} of ${results.length} tasks solved.

Try next:
  npx paddock show ${example}
      what the agent did, call by call
  npx paddock run examples/tasks/fizzbuzz --policy noop
      the same task by a model that does nothing: reward 0
  npx paddock serve
      the web page, the HTTP API and MCP on http://127.0.0.1:8000
`);
}
process.exit(code !== 0 ? code : solved.length === results.length && results.length > 0 ? 0 : 1);

function readResults(folder) {
	return readdirSync(folder, { recursive: true, encoding: "utf8" })
		.filter((name) => name.endsWith("result.json"))
		.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")));
}
