import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { HELLO } from "./lessons.mjs";

/** A GRPO step of TRL on rollouts of several calls each, every one a single row. */
export async function measureTrainer({ server, engine, work, model, runPython, say }) {
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
