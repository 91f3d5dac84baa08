import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs, promisify } from "node:util";
import { childEnvironment, isNodeNewEnough, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { measureContinuity } from "./proof/continuity.mjs";
import { startEngine } from "./proof/engine.mjs";
import { ensureEnvironment, versionsOf } from "./proof/environment.mjs";
import { HELLO } from "./proof/lessons.mjs";
import { measureLimit } from "./proof/limit.mjs";
import { makeModel } from "./proof/model.mjs";
import { endpointOf, get, startPaddock, submit, toLines, waitFor } from "./proof/paddock.mjs";
import { ensureReady } from "./setup.mjs";

/*
 * Shows with a real engine and a real trainer what docs/proof.md claims. Not part of the tests: it takes 6 GB and half an
 * hour. `npm run proof -- --env <venv> --model <folder>` takes up what was made before.
 */

const { values } = parseArgs({
	options: {
		env: { type: "string", default: join(ROOT, ".proof", "env") },
		model: { type: "string" },
		work: { type: "string", default: join(ROOT, ".proof") },
		seconds: { type: "string", default: "1200" },
	},
});

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
	await measureTemplates({ python, say });
	await measureSglang({ python, work, runPython, say });
}
const model = values.model
	? resolve(values.model)
	: await makeModel({ server, python, work, seconds: values.seconds });

{
	await using engine = await startEngine(python, model, {
		mode: "processed_logprobs",
		log: join(work, "vllm-processed.log"),
	});
	const bench = { server, engine, work, model, runPython, say };
	const neutral = await compare("temperature 1, everything else neutral", engine, {}, 1);
	await compare("temperature 0.7, logprobs_mode found out", engine, { temperature: 0.7 }, 0.7);
	await control(engine, neutral);
	await measureLimit(bench);
	await grpo(engine);
	tables.push(await measureContinuity(bench));
}
{
	await using engine = await startEngine(python, model, {
		mode: "raw_logprobs",
		log: join(work, "vllm-raw.log"),
	});
	await compare("temperature 0.7 on an engine with raw logprobs", engine, { temperature: 0.7 }, 1);
}
process.stdout.write(
	`\n${availableParallelism()} cores, Node ${process.version}\n\n| what | measured |\n|---|---|\n${rows.join("\n")}\n\n${tables.map((lines) => lines.join("\n")).join("\n\n")}\n`,
);

/** Rollouts against the engine; what was captured is scored again. Returns the file with the results. */
async function compare(what, engine, sampling, temperature) {
	const ids = await submit(server, HELLO, {
		n: 2,
		endpoint: endpointOf(engine),
		sampling: { ...sampling, maxTokensCap: 256 },
	});
	const results = [];
	for (const id of ids) results.push(await waitFor(server, id));
	const file = join(work, `${what.replaceAll(/\W+/g, "-")}.jsonl`);
	writeFileSync(file, toLines(results));
	const found = await runPython("compare.py", model, file, "--temperature", String(temperature));
	const certificates = await Promise.all(ids.map((id) => get(server, `/rollouts/${id}/certificate`)));
	const reasons = [...new Set(certificates.flatMap((certificate) => certificate.reasons))];
	say(
		what,
		`${found.calls} calls, ${found.tokens} tokens, max \\|Δlogp\\| ${found.max_difference.toPrecision(2)}, least logprob ${found.least_logprob.toFixed(2)}, rewards ${results.map((result) => result.reward).join(" and ")}, ${reasons.length === 0 ? "trainable" : `untrainable: ${reasons.join("; ")}`}`,
	);
	return file;
}

/** That the engine does sample otherwise when a request leaves it to the model's own files. */
async function control(engine, results) {
	const found = await runPython("compare.py", model, results, "--left-out", engine.baseUrl);
	say(
		"control: the same call with the sampling left to the engine",
		`${found.calls} calls, ${found.tokens} tokens, max \\|Δlogp\\| ${found.max_difference.toPrecision(2)}`,
	);
}

async function grpo(engine) {
	const task = join(work, "task.json");
	writeFileSync(task, JSON.stringify(HELLO));
	const found = await runPython(
		"grpo_step.py",
		model,
		server.url,
		engine.baseUrl,
		task,
		"--temperature",
		"0.7",
	);
	say(
		"GRPO (TRL), temperature 0.7, stitched rows",
		`rewards ${found.rewards.map((batch) => batch.join(" ")).join(", then ")}; ${found.calls} calls of ${found.rows} rollouts in ${found.samples} samples, ${found.trained} tokens trained; ${found.changed} of ${found.parameters} parameters changed; trainer and engine: max \\|Δlogp\\| ${found.max_difference.toPrecision(2)}, so the ratio is within ${(1 - found.max_difference).toFixed(6)} and ${(1 + found.max_difference).toFixed(6)}`,
	);
}

/** Runs one of the programs beside this one; its last line is what it found. */
async function runPython(program, ...args) {
	const { stdout } = await promisify(execFile)(python, [join(ROOT, "scripts/proof", program), ...args], {
		env: { ...process.env, PYTHONPATH: join(ROOT, "python") },
		maxBuffer: 1024 ** 3,
	});
	return JSON.parse(stdout.trim().split("\n").at(-1));
}
