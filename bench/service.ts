import { mkdtemp, readFile, rm } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "../src/client/client.ts";
import { freePort, startDaemon } from "../test/fixtures/daemon.ts";

const ROLLOUTS = Number(process.env.PADDOCK_BENCH_ROLLOUTS ?? 300);
const LOOK_EVERY_MS = 1_000;

/** A server with a long queue: do all end, does its memory stay, does it answer all the while? */
export async function benchService(print: (text: string) => void): Promise<void> {
	const home = await mkdtemp(join(tmpdir(), "paddock-bench-"));
	const port = await freePort();
	await using server = await startDaemon(["serve", "--port", String(port)], { PADDOCK_HOME: home });
	const client = createClient({ baseUrl: `http://127.0.0.1:${port}` });
	const since = performance.now();
	const task = { id: "nothing", instruction: "Do nothing.", verify: ["true"] };
	await client.submit({ task, endpoint: { type: "policy", policy: "noop" }, n: ROLLOUTS });

	const listMs: number[] = [];
	const memoryMb: number[] = [];
	for (let unfinished = ROLLOUTS; unfinished > 0; ) {
		const asked = performance.now();
		await client.list({ limit: 50 });
		listMs.push(performance.now() - asked);
		memoryMb.push(await residentMb(server.pid));
		unfinished = ROLLOUTS - (await countDone(client));
		await delay(LOOK_EVERY_MS);
	}
	const seconds = (performance.now() - since) / 1000;
	const outcomes = new Map<string, number>();
	for await (const rollout of client.listAll({ limit: 100 })) {
		const name = `${rollout.outcome} ${rollout.reward}`;
		outcomes.set(name, (outcomes.get(name) ?? 0) + 1);
	}
	await rm(home, { recursive: true, force: true });

	const ends = [...outcomes].map(([name, count]) => `${count} × ${name}`).join(", ");
	const quarter = Math.ceil(memoryMb.length / 4);
	print(
		`${ROLLOUTS} rollouts of \`noop\` on ${cpus().length} cores in ${seconds.toFixed(0)} s, load ${loadavg()[0]!.toFixed(1)}.`,
	);
	print("");
	print("| what | figure |");
	print("|---|---|");
	print(`| ends (outcome, reward) | ${ends} |`);
	print(`| rollouts per minute | ${((ROLLOUTS * 60) / seconds).toFixed(1)} |`);
	print(
		`| \`GET /api/v1/rollouts\`, ms: median, p99, most | ${at(listMs, 0.5)}, ${at(listMs, 0.99)}, ${at(listMs, 1)} |`,
	);
	print(
		`| server memory, MB: first quarter, last quarter, most | ${at(memoryMb.slice(0, quarter), 0.5)}, ${at(memoryMb.slice(-quarter), 0.5)}, ${at(memoryMb, 1)} |`,
	);
}

async function countDone(client: ReturnType<typeof createClient>): Promise<number> {
	const { items } = await client.groups({ limit: 1 });
	const group = await client.group(items[0]!.id);
	return group.done;
}

async function residentMb(pid: number): Promise<number> {
	const status = await readFile(`/proc/${pid}/status`, "utf8");
	return Number(/^VmRSS:\s+(\d+)/m.exec(status)![1]) / 1024;
}

function at(values: number[], fraction: number): string {
	const sorted = values.toSorted((a, b) => a - b);
	return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? 0).toFixed(1);
}
