import { readFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { openStation, request, VERIFY } from "./sandbox/agent.ts";
import { bareRun } from "./sandbox/bare.ts";
import { openStopwatch, type Stopwatch } from "./sandbox/stopwatch.ts";

const AT_ONCE = cpus().length;
const EACH = Number(process.env.PADDOCK_BENCH_ROLLOUTS ?? 12);
const ROUNDS = 3;
const FILL_MS = 10_000;

/** How many rollouts a saturated machine does in a minute, and what one costs, beside as many loops of bare `opencode run`. */
export async function benchThroughput(print: (text: string) => void): Promise<void> {
	await using model = await openStopwatch();
	const ways = {
		[`${AT_ONCE} loops of bare \`opencode run\``]: () => bareLoops(model),
		[`rollouts, ${AT_ONCE} at once, no warm boxes`]: () => rollouts(model, 0),
		[`rollouts, ${AT_ONCE} at once, 2 warm boxes`]: () => rollouts(model, 2),
	};
	const figures = Object.keys(ways).map((name) => ({ name, seconds: [] as number[], cpu: [] as number[] }));
	for (let round = 0; round < ROUNDS; round += 1) {
		for (const figure of figures) {
			const { seconds, cpu } = await ways[figure.name]!();
			figure.seconds.push(seconds / EACH);
			figure.cpu.push(cpu / EACH);
		}
	}
	const bare = median(figures[0]!.seconds);
	print(
		`${EACH} of three turns each, ${ROUNDS} rounds, turn by turn; ${AT_ONCE} cores, load ${loadavg()[0]!.toFixed(1)} at the end.`,
	);
	print("");
	print("| what | per minute | × bare | CPU-seconds each |");
	print("|---|---|---|---|");
	for (const { name, seconds, cpu } of figures) {
		const each = median(seconds);
		print(
			`| ${name} | ${(60 / each).toFixed(1)} | ${(bare / each).toFixed(2)} | ${median(cpu).toFixed(2)} |`,
		);
	}
	print("");
	print(
		"CPU is this process's own and that of all it started: gateway, store, boxes, agents and the scripted model. A rollout is staged, captured, verified in a clean box and stored; the bare loop does none of it.",
	);
}

async function bareLoops(model: Stopwatch) {
	return await measured(async () => {
		let left = EACH;
		const loop = async () => {
			while (left-- > 0) await bareRun(model);
		};
		await Promise.all(Array.from({ length: AT_ONCE }, loop));
	});
}

async function rollouts(model: Stopwatch, pool: number) {
	await using station = await openStation(pool, AT_ONCE);
	if (pool > 0) await delay(FILL_MS);
	return await measured(async () => {
		const requests = Array.from({ length: EACH }, () => request(model, VERIFY));
		const { rollouts } = await station.paddock.submitBatch(requests, { n: 1 });
		for (const { id } of rollouts) {
			const rollout = await station.paddock.wait(id, { timeoutMs: 600_000 });
			const reward = rollout?.reward;
			if (reward !== 1) throw new Error(`rollout ${id} earned ${reward}`);
		}
	});
}

async function measured(work: () => Promise<void>): Promise<{ seconds: number; cpu: number }> {
	const before = { at: performance.now(), cpu: cpuSeconds() };
	await work();
	const seconds = (performance.now() - before.at) / 1000;
	// What was ended is counted once it has been taken note of.
	await delay(500);
	return { seconds, cpu: cpuSeconds() - before.cpu };
}

const TICKS_A_SECOND = 100;

/** Of this process and of its children that have ended. */
function cpuSeconds(): number {
	const fields = readFileSync("/proc/self/stat", "utf8").split(") ")[1]!.split(" ");
	return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_A_SECOND;
}

function median(values: number[]): number {
	return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
