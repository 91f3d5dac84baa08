import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { HELLO, PAIR } from "./lessons.mjs";
import { endpointOf, get, getLines, submit, toLines, waitFor } from "./paddock.mjs";

const ROLLOUTS_OF_TASK = 8;

/**
 * The same tasks with and without stitching: how many samples, how much of what was sampled is in one, and is it true? Returns the lines of
 * a table, one column for each.
 */
export async function measureContinuity({ server, engine, work, runPython, model }) {
	const columns = {};
	for (const continuity of ["off", "auto"]) {
		const ids = [];
		for (const task of [HELLO, PAIR]) {
			const sampling = { continuity, maxTokensCap: 256 };
			ids.push(
				...(await submit(server, task, { n: ROLLOUTS_OF_TASK, endpoint: endpointOf(engine), sampling })),
			);
		}
		const rollouts = [];
		for (const id of ids) rollouts.push(await readRollout(server, id));
		const file = join(work, `samples-${continuity}.jsonl`);
		writeFileSync(file, toLines(rollouts.flatMap((rollout) => rollout.samples)));
		const found = await runPython("compare.py", model, file, "--samples");
		columns[continuity] = { ...describe(rollouts, found), ...oddities(rollouts) };
		if (continuity === "auto")
			columns.anew = describe(await Promise.all(rollouts.map((rollout) => renderedAnew(engine, rollout))));
		process.stdout.write(`continuity ${continuity}: ${JSON.stringify(columns[continuity])}\n`);
	}
	const { auto, anew, off } = columns;
	return [
		`| ${2 * ROLLOUTS_OF_TASK} rollouts of two tasks, real agent, real engine | stitched | the same calls, had the engine rendered each prompt anew | others with \`continuity: off\` |`,
		"|---|---|---|---|",
		...Object.keys(auto).map((what) => `| ${what} | ${auto[what]} | ${anew[what] ?? "–"} | ${off[what]} |`),
	];
}

/** The very same calls with the prompts that the engine's own template makes of the agent's messages: what they would have come to. */
async function renderedAnew(engine, rollout) {
	const { toSamples } = await import("../../src/export/samples.ts");
	const calls = [];
	for (const { continuity: _stitched, ...call } of rollout.calls)
		calls.push({ ...call, promptIds: await renderOf(engine, call.request) });
	return { ...rollout, ...(await toSamples(calls)) };
}

async function renderOf(engine, { messages, tools }) {
	const response = await fetch(`${engine.origin}/tokenize`, {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: JSON.stringify({ model: "proof", messages, tools }),
	});
	if (!response.ok) throw new Error(`/tokenize answered ${response.status}: ${await response.text()}`);
	return (await response.json()).tokens;
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
	const certificates = rollouts.map(({ certificate }) => certificate);
	const sessions = new Set(rollouts.flatMap(({ calls }) => calls.map((call) => call.sessionId)));
	const calls = sum(rollouts.map((rollout) => rollout.calls.length));
	const trained = sum(certificates.map(({ trainedTokens }) => trainedTokens));
	const largest = new Map();
	for (const { sessionId, mask } of samples)
		largest.set(sessionId, Math.max(largest.get(sessionId) ?? 0, sum(mask)));
	const inLargest = sum([...largest.values()]);
	return {
		"sessions (sub-agents have their own)": sessions.size,
		"calls; later ones of a session": `${calls}; ${calls - sessions.size}`,
		"of these stitched": sum(certificates.map(({ continuity }) => continuity.stitched)),
		samples: `**${samples.length}**`,
		"sampled tokens": trained,
		"of these in the largest sample of their session": `${inLargest} = **${((100 * inLargest) / trained).toFixed(1)} %**`,
		"tokens to train over": sum(samples.map((sample) => sample.ids.length)),
		"scored again, each sample in one pass: max \\|Δlogp\\|": found?.max_difference.toPrecision(2),
		"least logprob": found?.least_logprob.toFixed(2),
		"trainable; reward 1": `${certificates.filter(({ trainable }) => trainable).length}; ${rollouts.filter(({ reward }) => reward === 1).length}`,
		forks: counted(certificates.map(({ continuity }) => continuity.breaks)),
		"rendered anew, and why": counted(certificates.map(({ continuity }) => continuity.plain)),
	};
}

function counted(all) {
	const total = {};
	for (const counts of all)
		for (const [why, count] of Object.entries(counts)) total[why] = (total[why] ?? 0) + count;
	const lines = Object.entries(total).map(([why, count]) => `${why} ${count}`);
	return lines.join(", ") || "none";
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
	return { ...counts, "sub-agent sessions": counts["sub-agent sessions"].size };
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
