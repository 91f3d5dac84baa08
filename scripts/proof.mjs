import { execFile } from "node:child_process";
import { mkdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs, promisify } from "node:util";
import { childEnvironment, isNodeNewEnough, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { compare, measureAgreement } from "./proof/agreement.mjs";
import { measureContinuity } from "./proof/continuity.mjs";
import { startEngine } from "./proof/engine.mjs";
import { ensureEnvironment, versionsOf } from "./proof/environment.mjs";
import { measureLimit } from "./proof/limit.mjs";
import { makeModel } from "./proof/model.mjs";
import { startPaddock } from "./proof/paddock.mjs";
import { measureTrainer } from "./proof/trainer.mjs";
import { ensureReady } from "./setup.mjs";

/*
 * Shows with a real engine and a real trainer what docs/proof.md claims. Not part of the tests: it takes 6 GB and half an
 * hour. `npm run proof -- --env <venv> --model <folder>` takes up what was made before, `--only limit,trainer` measures that alone.
 */

const { values } = parseArgs({
	options: {
		env: { type: "string", default: join(ROOT, ".proof", "env") },
		model: { type: "string" },
		work: { type: "string", default: join(ROOT, ".proof") },
		seconds: { type: "string", default: "1200" },
		only: { type: "string" },
	},
});
const PARTS = ["templates", "sglang", "agreement", "limit", "trainer", "continuity", "raw"];
const parts = values.only?.split(",") ?? PARTS;
const unknown = parts.filter((part) => !PARTS.includes(part));
if (unknown.length > 0) throw new Error(`--only takes ${PARTS.join(", ")}; not ${unknown.join(", ")}`);
const isWanted = (part) => parts.includes(part);

ensureReady();
if (!isNodeNewEnough()) {
	const args = ["scripts/proof.mjs", ...process.argv.slice(2)];
	process.exit(await runInForeground(newEnoughNode(), args, { cwd: ROOT, env: childEnvironment() }));
}

const work = resolve(values.work);
mkdirSync(work, { recursive: true });
const python = ensureEnvironment(resolve(values.env));
const rows = [];
const tables = [];
const say = (what, found) => {
	rows.push(`| ${what} | ${found} |`);
	process.stdout.write(`${what}: ${found}\n`);
};

await using server = await startPaddock(join(work, "home"), join(work, "paddock.log"));
const versions = versionsOf(python);
say(
	"versions",
	Object.entries(versions)
		.map(([name, version]) => `${name} ${version}`)
		.join(", "),
);
{
	// They import TypeScript, which only the Node of above can read.
	const { measureTemplates } = await import("./proof/templates.mjs");
	const { measureSglang } = await import("./proof/sglang.mjs");
	if (isWanted("templates")) await measureTemplates({ python, say });
	if (isWanted("sglang")) await measureSglang({ python, work, runPython, say });
}
if (["agreement", "limit", "trainer", "continuity", "raw"].some(isWanted)) await measureEngine();
process.stdout.write(
	`\n${availableParallelism()} cores, Node ${process.version}\n\n| what | measured |\n|---|---|\n${rows.join("\n")}\n\n${tables.map((lines) => lines.join("\n")).join("\n\n")}\n`,
);

async function measureEngine() {
	const model = values.model
		? resolve(values.model)
		: await makeModel({ server, python, work, seconds: values.seconds });
	{
		await using engine = await startEngine(python, model, {
			mode: "processed_logprobs",
			log: join(work, "vllm-processed.log"),
		});
		const bench = { server, engine, work, model, runPython, say };
		if (isWanted("agreement")) await measureAgreement(bench);
		if (isWanted("limit")) await measureLimit(bench);
		if (isWanted("trainer")) await measureTrainer(bench);
		if (isWanted("continuity")) tables.push(await measureContinuity(bench));
	}
	if (!isWanted("raw")) return;
	await using engine = await startEngine(python, model, {
		mode: "raw_logprobs",
		log: join(work, "vllm-raw.log"),
	});
	const what = "temperature 0.7 on an engine with raw logprobs";
	await compare({ server, engine, work, model, runPython, say }, what, { temperature: 0.7 }, 1);
}

/** Runs one of the programs beside this one; its last line is what it found. */
async function runPython(program, ...args) {
	const { stdout } = await promisify(execFile)(python, [join(ROOT, "scripts/proof", program), ...args], {
		env: { ...process.env, PYTHONPATH: join(ROOT, "python") },
		maxBuffer: 1024 ** 3,
	});
	return JSON.parse(stdout.trim().split("\n").at(-1));
}
