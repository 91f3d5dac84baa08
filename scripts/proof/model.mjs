import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../node24.mjs";
import { startEngine } from "./engine.mjs";
import { HELLO, PAIR } from "./lessons.mjs";
import { endpointOf, submit, toLines, waitFor } from "./paddock.mjs";
import { openTeacher } from "./teacher.mjs";

/** How often each task is dictated: what differs from one rollout to the next (names of sessions, times) is not learnt by heart. */
const LESSONS_OF_TASK = 3;

/**
 * A model that solves both tasks, with all that the lessons have in them. Its tokenizer is made of the agent's own prompts; its lessons are
 * dictated to the engine itself behind the real agent; what it learns is what was captured.
 */
export async function makeModel({ server, python, work, seconds }) {
	const model = join(work, "model");
	const make = (what, results) =>
		execFileSync(
			python,
			[join(ROOT, "scripts/proof/make_model.py"), what, model, results, "--seconds", seconds],
			{ stdio: ["ignore", "inherit", "inherit"] },
		);
	const oracle = { endpoint: { type: "policy", policy: "oracle" } };
	make("blank", await resultsOf(server, oracle, 1, join(work, "prompts.jsonl")));
	const lessons = await dictate({ server, python, work, model });
	make("taught", lessons);
	return model;
}

async function dictate({ server, python, work, model }) {
	await using engine = await startEngine(python, model, {
		mode: "processed_logprobs",
		log: join(work, "vllm-lessons.log"),
		options: ["--logits-processors", "dictation:Dictation"],
	});
	await using teacher = await openTeacher(engine);
	const terms = { endpoint: endpointOf(teacher), sampling: { maxTokensCap: 512 } };
	return await resultsOf(server, terms, LESSONS_OF_TASK, join(work, "lessons.jsonl"), (result) => {
		if (result.reward !== 1) throw new Error(`a dictated rollout earned ${result.reward}: ${result.error}`);
	});
}

async function resultsOf(server, terms, n, file, check = () => {}) {
	const ids = [];
	for (const task of [HELLO, PAIR]) ids.push(...(await submit(server, task, { n, ...terms })));
	const results = [];
	for (const id of ids) results.push(await waitFor(server, id));
	writeFileSync(file, toLines(results));
	results.forEach(check);
	return file;
}
