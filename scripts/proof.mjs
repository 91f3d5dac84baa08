import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, promisify } from "node:util";
import { childEnvironment, isNodeNewEnough, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { sampledTokens, startEngine } from "./proof/engine.mjs";
import { ensureEnvironment, versionsOf } from "./proof/environment.mjs";
import { get, startPaddock, submit, waitFor } from "./proof/paddock.mjs";
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
		seconds: { type: "string", default: "300" },
	},
});

ensureReady();
if (!isNodeNewEnough()) {
	const args = ["scripts/proof.mjs", ...process.argv.slice(2)];
	process.exit(await runInForeground(newEnoughNode(), args, { cwd: ROOT, env: childEnvironment() }));
}

const TASK = {
	id: "hello",
	instruction: "Write the word hello into hello.txt\n",
	verify: ["grep -qx hello hello.txt"],
	solution: [{ tool: "write", path: "hello.txt", content: "hello\n" }],
};
const LIMIT_S = 15;

const work = values.work;
mkdirSync(work, { recursive: true });
const python = ensureEnvironment(values.env);
const rows = [];
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
const model = values.model ?? (await makeModel());

{
	await using engine = await startEngine(python, model, {
		mode: "processed_logprobs",
		log: join(work, "vllm-processed.log"),
	});
	const neutral = await compare("temperature 1, everything else neutral", engine, {}, 1);
	await compare("temperature 0.7, logprobs_mode found out", engine, { temperature: 0.7 }, 0.7);
	const control = await runPython("compare.py", model, neutral, "--left-out", engine.baseUrl);
	say(
		"control: the same call with the sampling left to the engine",
		`${control.calls} calls, ${control.tokens} tokens, max \\|Δlogp\\| ${control.max_difference.toPrecision(2)}`,
	);
	await limit(engine);
	await grpo(engine);
}
{
	await using engine = await startEngine(python, model, {
		mode: "raw_logprobs",
		log: join(work, "vllm-raw.log"),
	});
	await compare("temperature 0.7 on an engine with raw logprobs", engine, { temperature: 0.7 }, 1);
}
process.stdout.write(
	`\n${availableParallelism()} cores, Node ${process.version}\n\n| what | measured |\n|---|---|\n${rows.join("\n")}\n`,
);

/** Taught the transcript of the scripted model, so that it makes the tool call and earns the reward by itself. */
async function makeModel() {
	const [id] = await submit(server, TASK, { endpoint: { type: "policy", policy: "oracle" } });
	const transcript = join(work, "oracle.jsonl");
	writeFileSync(transcript, `${JSON.stringify(await waitFor(server, id))}\n`);
	const made = join(work, "model");
	const args = [join(ROOT, "scripts/proof/make_model.py"), made, transcript, "--seconds", values.seconds];
	execFileSync(python, args, { stdio: ["ignore", "inherit", "inherit"] });
	return made;
}

/** Rollouts against the engine; what was captured is scored again. Returns the file with the results. */
async function compare(what, engine, sampling, temperature) {
	const ids = await submit(server, TASK, { n: 2, endpoint: endpointOf(engine), sampling: capped(sampling) });
	const results = [];
	for (const id of ids) results.push(await waitFor(server, id));
	const file = join(work, `${what.replaceAll(/\W+/g, "-")}.jsonl`);
	writeFileSync(file, results.map((result) => `${JSON.stringify(result)}\n`).join(""));
	const found = await runPython("compare.py", model, file, "--temperature", String(temperature));
	const certificates = await Promise.all(ids.map((id) => get(server, `/rollouts/${id}/certificate`)));
	const reasons = [...new Set(certificates.flatMap((certificate) => certificate.reasons))];
	say(
		what,
		`${found.calls} calls, ${found.tokens} tokens, max \\|Δlogp\\| ${found.max_difference.toPrecision(2)}, least logprob ${found.least_logprob.toFixed(2)}, rewards ${results.map((result) => result.reward).join(" and ")}, ${reasons.length === 0 ? "trainable" : `untrainable: ${reasons.join("; ")}`}`,
	);
	return file;
}

/** A rollout that would babble for minutes is over for the engine when its time is over. */
async function limit(engine) {
	const task = { ...TASK, clocks: { agentS: LIMIT_S } };
	const sampling = { temperature: 5, maxTokensCap: 16_000 };
	const [id] = await submit(server, task, { endpoint: endpointOf(engine), sampling });
	const before = await sampledTokens(engine);
	let [tokens, lastTokenAt, isDone] = [before, 0, false];
	const result = waitFor(server, id).finally(() => {
		isDone = true;
	});
	while (!isDone) {
		const now = await sampledTokens(engine);
		if (now > tokens) lastTokenAt = Date.now();
		tokens = now;
		await sleep(10);
	}
	const { outcome, error } = await result;
	const { items } = await get(server, `/rollouts/${id}/events?limit=5000`);
	const began = items.find((event) => event.type === "phase-start" && event.phase === "agent");
	if (began === undefined || lastTokenAt === 0) return say(`a limit of ${LIMIT_S} s`, `not shown: ${error}`);
	const lateMs = lastTokenAt - (began.at + LIMIT_S * 1000);
	say(
		`a limit of ${LIMIT_S} s on an answer of up to 16,000 tokens`,
		`outcome ${outcome}; ${tokens - before} tokens, the last one ${lateMs < 0 ? `${-lateMs} ms before` : `${lateMs} ms after`} the limit`,
	);
}

async function grpo(engine) {
	const task = join(work, "task.json");
	writeFileSync(task, JSON.stringify(TASK));
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
		"GRPO (TRL), temperature 0.7",
		`rewards ${found.rewards.map((batch) => batch.join(" ")).join(", then ")}; ${found.changed} of ${found.parameters} parameters changed; trainer and engine: max \\|Δlogp\\| ${found.max_difference.toPrecision(2)}`,
	);
}

function endpointOf(engine) {
	return { type: "url", baseUrl: engine.baseUrl, model: "proof", dialect: "auto" };
}

function capped(sampling) {
	return { ...sampling, maxTokensCap: 256 };
}

/** Runs one of the programs beside this one; its last line is what it found. */
async function runPython(program, ...args) {
	const { stdout } = await promisify(execFile)(python, [join(ROOT, "scripts/proof", program), ...args], {
		env: { ...process.env, PYTHONPATH: join(ROOT, "python") },
		maxBuffer: 1024 ** 3,
	});
	return JSON.parse(stdout.trim().split("\n").at(-1));
}
