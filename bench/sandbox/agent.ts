import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { loadConfig } from "../../src/config.ts";
import type { RolloutEvent } from "../../src/model/event.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import { openPaddock, type Paddock } from "../../src/paddock.ts";
import { bareRun, bareServe, type Figures } from "./bare.ts";
import { openStopwatch, type Stopwatch } from "./stopwatch.ts";

const ROUNDS = 5;
const REFILL_MS = 8_000;

/** What a whole rollout costs, beside OpenCode by hand, turn by turn in the same run. */
export async function benchAgent(print: (text: string) => void): Promise<void> {
	await using model = await openStopwatch();
	const rows: Record<string, Figures[]> = {};
	const note = (name: string, figures: Figures) => {
		rows[name] = [...(rows[name] ?? []), figures];
	};
	await using cold = await openStation(0);
	for (let round = 0; round < ROUNDS; round++) {
		note("bare `opencode serve`", await fresh(model, () => bareServe(model)));
		note("bare `opencode run`", await fresh(model, () => bareRun(model)));
		note("box, cold", (await rollouts(cold.paddock, model, 1, "rollout-start"))[0]!);
	}
	await using warm = await openStation(1);
	for (let round = 0; round < ROUNDS; round++) {
		// The pool fills in the background; a trainer's next group comes later than this too.
		await delay(REFILL_MS);
		note("box, generic warm", (await rollouts(warm.paddock, model, 1, "sandbox-open"))[0]!);
		await delay(REFILL_MS);
		const [, ...primed] = await rollouts(warm.paddock, model, 3, "sandbox-open");
		for (const figures of primed) note("box, primed for its task", figures);
	}
	printTable(print, rows);
}

function printTable(print: (text: string) => void, rows: Record<string, Figures[]>): void {
	const bare = median(rows["bare `opencode serve`"]!.map((figures) => figures.firstRequest));
	const run = median(rows["bare `opencode run`"]!.map((figures) => figures.threeTurns));
	print("");
	print(
		"| agent | first model request, ms | × bare serve | three turns, ms | × faster than `opencode run` |",
	);
	print("|---|---|---|---|---|");
	for (const [name, figures] of Object.entries(rows)) {
		const first = median(figures.map((each) => each.firstRequest));
		const turns = median(figures.map((each) => each.threeTurns));
		const ratios = [(first / bare).toFixed(2), (run / turns).toFixed(1)];
		print(`| ${name} | ${first.toFixed(0)} | ${ratios[0]} | ${turns.toFixed(0)} | ${ratios[1]} |`);
	}
	print("");
	print(
		"A cold box's clock starts when a worker takes the rollout: opening, staging, snapshot and boot are in it. A warm box's starts when it has been taken, thawed and found alive.",
	);
}

/** Events carry the times: taken, first call, agent done. */
async function rollouts(
	paddock: Paddock,
	model: Stopwatch,
	n: number,
	from: RolloutEvent["type"],
): Promise<Figures[]> {
	const request = RolloutRequest.parse({
		task: { id: "bench", instruction: "Do what is asked." },
		endpoint: {
			type: "url",
			baseUrl: `${model.url}/v1`,
			model: model.model,
			apiKey: model.key,
			dialect: "vllm",
		},
	});
	const { rollouts: submitted } = await paddock.submit(request, { n });
	const figures: Figures[] = [];
	for (const { id } of submitted) {
		const at = new Map<string, number>();
		for await (const event of paddock.follow(id)) if (!at.has(event.type)) at.set(event.type, event.at);
		const since = at.get(from)!;
		figures.push({ firstRequest: at.get("call-start")! - since, threeTurns: at.get("agent-end")! - since });
	}
	return figures;
}

async function openStation(pool: number) {
	const home = await mkdtemp(join(tmpdir(), "paddock-bench-"));
	const config = loadConfig(
		{ ...process.env, PADDOCK_HOME: home, PADDOCK_CONCURRENCY: "1", PADDOCK_POOL: String(pool) },
		home,
	);
	const paddock = await openPaddock(config);
	const worker = await paddock.work();
	return {
		paddock,
		async [Symbol.asyncDispose]() {
			await worker.drain(0);
			await paddock[Symbol.asyncDispose]();
			await rm(home, { recursive: true, force: true });
		},
	};
}

async function fresh<T>(model: Stopwatch, measure: () => Promise<T>): Promise<T> {
	model.reset();
	return await measure();
}

function median(values: number[]): number {
	return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
