import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { UNTAUGHT } from "./lessons.mjs";
import { endpointOf, get, submit, toLines, waitFor } from "./paddock.mjs";

/** Captured logprobs are those of the distribution that was sampled from, whatever the model's own files ask for. */
export async function measureAgreement(bench) {
	const neutral = await compare(bench, "temperature 1, everything else neutral", {}, 1);
	await compare(bench, "temperature 0.7, logprobs_mode found out", { temperature: 0.7 }, 0.7);
	await control(bench, neutral);
}

/** Rollouts against the engine; what was captured is scored again. Returns the file with the results. */
export async function compare({ server, engine, work, model, runPython, say }, what, sampling, temperature) {
	const ids = await submit(server, UNTAUGHT, {
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
		`${found.calls} calls, ${found.tokens} tokens, max \\|Δlogp\\| ${found.max_difference.toPrecision(2)}, least logprob ${found.least_logprob.toFixed(2)}, ${reasons.length === 0 ? "trainable" : `untrainable: ${reasons.join("; ")}`}`,
	);
	return file;
}

/** That the engine does sample otherwise when a request leaves it to the model's own files. */
async function control({ engine, model, runPython, say }, results) {
	const found = await runPython("compare.py", model, results, "--left-out", engine.baseUrl);
	say(
		"control: the same call with the sampling left to the engine",
		`${found.calls} calls, ${found.tokens} tokens, max \\|Δlogp\\| ${found.max_difference.toPrecision(2)}`,
	);
}
