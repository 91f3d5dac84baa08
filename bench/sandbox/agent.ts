import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { loadConfig } from "../../src/config.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import { openPaddock, type Paddock } from "../../src/paddock.ts";
import { bareRun, bareServe, type Figures } from "./bare.ts";
import { openStopwatch, type Stopwatch } from "./stopwatch.ts";

const ROUNDS = 7;
const REFILL_MS = 8_000;
/** Passes once the scripted model has done its work. */
export const VERIFY = "grep -q one one.txt";

export interface AgentFigures {
	rows: Record<string, Figures[]>;
	/** From the agent's last word to the reward, ms. */
	verification: number[];
}

/** What a whole rollout costs, beside OpenCode by hand, turn by turn in the same run. */
export async function measureAgent(): Promise<AgentFigures> {
	await using model = await openStopwatch();
	const rows: Record<string, Figures[]> = {};
	const verification: number[] = [];
	const note = (name: string, figures: Figures) => {
		rows[name] = [...(rows[name] ?? []), figures];
	};
	await using cold = await openStation(0);
	for (let round = 0; round < ROUNDS; round++) {
		note("bare `opencode serve`", await fresh(model, () => bareServe(model)));
		note("bare `opencode run`", await fresh(model, () => bareRun(model)));
		const figures = await oneRollout(cold.paddock, model);
		note("box, cold", figures);
		verification.push(figures.verification);
	}
	await using warm = await openStation(1);
	for (let round = 0; round < ROUNDS; round++) {
		// The pool fills in the background; a trainer's next group comes later than this too.
		await delay(REFILL_MS);
		note("box, generic warm", await oneRollout(warm.paddock, model));
		await delay(REFILL_MS);
		// The second one's box is made while the first one is being verified.
		const group = [request(model, "sleep 8"), request(model, VERIFY)];
		const { rollouts } = await warm.paddock.submitBatch(group, { n: 1 });
		note("box, primed for its task", await figuresOf(warm.paddock, rollouts[1]!.id));
	}
	return { rows, verification };
}

export function printAgent(print: (text: string) => void, rows: Record<string, Figures[]>): void {
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
		"A box's clock starts when a worker takes the rollout: opening, staging, snapshot and boot are in a cold one's time, thawing and the question whether it lives in a warm one's.",
	);
}

async function oneRollout(paddock: Paddock, model: Stopwatch) {
	const { rollouts } = await paddock.submit(request(model, VERIFY));
	return await figuresOf(paddock, rollouts[0]!.id);
}

/** Events carry the times: taken by a worker, first call, agent done, judged. */
async function figuresOf(paddock: Paddock, id: string): Promise<Figures & { verification: number }> {
	const at = new Map<string, number>();
	for await (const event of paddock.follow(id)) if (!at.has(event.type)) at.set(event.type, event.at);
	const since = at.get("rollout-start")!;
	return {
		firstRequest: at.get("call-start")! - since,
		threeTurns: at.get("agent-end")! - since,
		verification: at.get("reward")! - at.get("agent-end")!,
	};
}

export function request(model: Stopwatch, verify: string): RolloutRequest {
	return RolloutRequest.parse({
		task: { id: "bench", instruction: "Do what is asked.", verify: [verify] },
		endpoint: {
			type: "url",
			baseUrl: `${model.url}/v1`,
			model: model.model,
			apiKey: model.key,
			dialect: "vllm",
		},
	});
}

export async function openStation(pool: number, concurrency = 1) {
	const home = await mkdtemp(join(tmpdir(), "paddock-bench-"));
	const config = loadConfig(
		{
			...process.env,
			PADDOCK_HOME: home,
			PADDOCK_CONCURRENCY: String(concurrency),
			PADDOCK_POOL: String(pool),
		},
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
