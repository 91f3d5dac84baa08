import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { HELLO, PAIR } from "./lessons.mjs";
import { endpointOf, get, getLines, submit, toLines, waitFor } from "./paddock.mjs";

const ROLLOUTS_OF_TASK = 8;

/** The same tasks with and without stitching: how many samples, how much of what was sampled is in one, and is it true? */
export async function measureContinuity({ server, engine, work, runPython, model, say }) {
	for (const continuity of ["auto", "off"]) {
		const ids = [];
		for (const task of [HELLO, PAIR]) {
			const sampling = { continuity, maxTokensCap: 256 };
			ids.push(
				...(await submit(server, task, { n: ROLLOUTS_OF_TASK, endpoint: endpointOf(engine), sampling })),
			);
		}
		const rollouts = [];
		for (const id of ids) rollouts.push(await readRollout(server, id));
		const samples = rollouts.flatMap((rollout) => rollout.samples);
		const file = join(work, `samples-${continuity}.jsonl`);
		writeFileSync(file, toLines(samples));
		const found = await runPython("compare.py", model, file, "--samples");
		say(`continuity ${continuity}: 16 rollouts of two tasks`, describe(rollouts, found));
		if (continuity === "auto") say("what those 16 had in them", oddities(rollouts));
	}
}

async function readRollout(server, id) {
	const result = await waitFor(server, id);
	const [certificate, samples, calls] = await Promise.all([
		get(server, `/rollouts/${id}/certificate`),
		getLines(server, `/rollouts/${id}/samples?untrainable=include`),
		getLines(server, `/rollouts/${id}/calls?format=ndjson`),
	]);
	const trained = calls.filter(({ purpose }) => purpose === "main" || purpose === "subagent");
	return { id, reward: result.reward, outcome: result.outcome, certificate, samples, calls: trained };
}

function describe(rollouts, found) {
	const samples = rollouts.flatMap((rollout) => rollout.samples);
	const sessions = new Set(rollouts.flatMap(({ calls }) => calls.map((call) => call.sessionId)));
	const calls = sum(rollouts.map((rollout) => rollout.calls.length));
	const sampled = sum(rollouts.map(({ certificate }) => certificate.completeness.capturedTokens));
	const trained = sum(rollouts.map(({ certificate }) => certificate.trainedTokens));
	const largest = new Map();
	for (const { sessionId, mask } of samples)
		largest.set(sessionId, Math.max(largest.get(sessionId) ?? 0, sum(mask)));
	const inMain = sum([...largest.values()]);
	const stitched = sum(rollouts.map(({ certificate }) => certificate.continuity.stitched));
	const reasons = {};
	for (const { certificate } of rollouts)
		for (const [why, count] of Object.entries({
			...certificate.continuity.plain,
			...certificate.continuity.breaks,
		}))
			reasons[why] = (reasons[why] ?? 0) + count;
	const rewards = rollouts.filter(({ reward }) => reward === 1).length;
	return [
		`${sessions.size} sessions, ${calls} calls (${stitched} of the ${calls - sessions.size} later ones stitched)`,
		`**${samples.length} samples**`,
		`${inMain} of ${trained} trained tokens in their session's largest sample = **${((100 * inMain) / trained).toFixed(1)} %** (${sampled} sampled, titles among them)`,
		`${sum(samples.map((sample) => sample.ids.length))} tokens to train over`,
		`scored again, one pass for each sample: ${found.tokens} tokens, max \\|Δlogp\\| ${found.max_difference.toPrecision(2)}, least logprob ${found.least_logprob.toFixed(2)}`,
		`${rollouts.filter(({ certificate }) => certificate.trainable).length} trainable, reward 1: ${rewards}`,
		`forks: ${
			Object.entries(reasons)
				.map(([why, count]) => `${why} ${count}`)
				.join(", ") || "none"
		}`,
	].join("; ");
}

/** How often the rollouts had what makes histories differ from what was sampled. */
function oddities(rollouts) {
	const counts = {
		"calls with text before them": 0,
		"unknown tools": 0,
		"malformed arguments": 0,
		"parallel calls": 0,
		"respelled by the agent": 0,
		"rewritten by the agent": 0,
		"cut at the token limit": 0,
		"sub-agent sessions": new Set(),
	};
	for (const call of rollouts.flatMap((rollout) => rollout.calls)) {
		const { message, finishReason } = call.response;
		const asked = message?.tool_calls ?? [];
		const known = new Set(call.request.tools.map((tool) => tool.function.name));
		if (asked.length > 0 && (message.content ?? "").trim() !== "") counts["calls with text before them"] += 1;
		if (asked.length > 1) counts["parallel calls"] += 1;
		if (asked.some((one) => !known.has(one.function.name))) counts["unknown tools"] += 1;
		if (asked.some((one) => !isJson(one.function.arguments))) counts["malformed arguments"] += 1;
		if (call.continuity?.how === "respelled") counts["respelled by the agent"] += 1;
		if (call.continuity?.how === "rewritten") counts["rewritten by the agent"] += 1;
		if (finishReason === "length") counts["cut at the token limit"] += 1;
		if (call.purpose === "subagent") counts["sub-agent sessions"].add(call.sessionId);
	}
	return Object.entries(counts)
		.map(([what, count]) => `${what} ${count.size ?? count}`)
		.join(", ");
}

function isJson(text) {
	try {
		JSON.parse(text);
		return true;
	} catch {
		return false;
	}
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
