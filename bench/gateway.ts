import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Load, LoadResult } from "./gateway/load.ts";

interface Scenario {
	streams: number;
	/** Tokens per second of each stream; 0 is as fast as it goes. */
	rate: number;
	tokens: number;
	requests: number;
	rounds: number;
}

/** Paces a busy GPU server keeps, and that leave room on two cores for three processes. */
const SCENARIOS: Scenario[] = [
	{ streams: 1, rate: 100, tokens: 100, requests: 3, rounds: 2 },
	{ streams: 16, rate: 100, tokens: 50, requests: 6, rounds: 4 },
	{ streams: 128, rate: 40, tokens: 240, requests: 1, rounds: 3 },
	{ streams: 512, rate: 12, tokens: 120, requests: 1, rounds: 2 },
];
const SATURATED: Scenario = { streams: 16, rate: 0, tokens: 2000, requests: 2, rounds: 1 };

interface Measured {
	scenario: Scenario;
	direct: LoadResult[];
	relayed: LoadResult[];
	cpuMs: number;
	maxRssMb: number;
}

/** Streams through the gateway with capture on, against the same engine directly, turn by turn in the same run. */
export async function benchGateway(print: (text: string) => void): Promise<void> {
	const folder = await mkdtemp(join(tmpdir(), "paddock-bench-"));
	try {
		const measured: Measured[] = [];
		for (const scenario of [...SCENARIOS, SATURATED]) measured.push(await measure(scenario, folder));
		for (const line of toReport(measured)) print(line);
	} finally {
		await rm(folder, { recursive: true, force: true });
	}
}

async function measure(scenario: Scenario, folder: string): Promise<Measured> {
	using engine = start("engine.ts", []);
	const { port } = await engine.hears<{ port: number }>();
	// The engine reads its pace from the query; the gateway keeps the query of its endpoint's base URL.
	const query = `?rate=${scenario.rate}&tokens=${scenario.tokens}`;
	const engineUrl = `http://127.0.0.1:${port}/v1`;
	const file = join(folder, `calls-${scenario.streams}-${scenario.rate}.jsonl`);
	using gateway = start("gateway.ts", [engineUrl + query, file, String(scenario.streams)]);
	const { url, keys, warmUpKeys } = await gateway.hears<{
		url: string;
		keys: string[];
		warmUpKeys: string[];
	}>();
	using load = start("load.ts", []);
	const spreadMs = Math.min(2000, scenario.streams * 5);
	const common = { streams: scenario.streams, requests: scenario.requests, spreadMs };
	const directly: Load = { ...common, url: engineUrl, query, keys: ["none"], asksForTokens: true };
	const relayed: Load = { ...common, url, query: "", keys, asksForTokens: false };
	const run = (what: Load) => load.asks<LoadResult>(what);
	// Servers run for days: what counts is compiled code on open connections.
	const warmUp = { requests: 25, streams: 16, spreadMs: 0 };
	await run({ ...directly, ...warmUp, query: "?rate=0&tokens=50" });
	await run({ ...relayed, ...warmUp, keys: warmUpKeys });
	const before = await gateway.asks<{ cpuMs: number }>("usage");
	const results: Measured = { scenario, direct: [], relayed: [], cpuMs: 0, maxRssMb: 0 };
	for (let round = 0; round < scenario.rounds; round += 1) {
		results.direct.push(await run(directly));
		results.relayed.push(await run(relayed));
	}
	const after = await gateway.asks<{ cpuMs: number; maxRssMb: number }>("usage");
	return { ...results, cpuMs: after.cpuMs - before.cpuMs, maxRssMb: after.maxRssMb };
}

interface Part extends Disposable {
	hears<T>(): Promise<T>;
	asks<T>(message: unknown): Promise<T>;
}

function start(file: string, args: string[]): Part {
	const path = fileURLToPath(new URL(`./gateway/${file}`, import.meta.url));
	const child: ChildProcess = fork(path, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
	const died = once(child, "exit").then(([code]) => Promise.reject(new Error(`${file} ended with ${code}`)));
	// Being killed at the end is no news; whoever waits for an answer is told.
	died.catch(() => {});
	const hears = async <T>() => {
		const [message] = await Promise.race([once(child, "message"), died]);
		return message as T;
	};
	return {
		hears,
		asks: <T>(message: unknown) => {
			child.send(message as object);
			return hears<T>();
		},
		[Symbol.dispose]: () => void child.kill(),
	};
}

function toReport(all: Measured[]): string[] {
	const paced = all.filter(({ scenario }) => scenario.rate > 0);
	const saturated = all.find(({ scenario }) => scenario.rate === 0)!;
	return [
		`${cpus()[0]?.model ?? "unknown CPU"} × ${cpus().length}, Node ${process.version}, load average ${(loadavg()[0] ?? 0).toFixed(1)}. ` +
			"Engine, gateway and clients are three processes on this machine; one rollout per stream; every call is appended to a file before its last event is released.",
		"",
		"| streams | tokens/s direct | tokens/s gateway | ratio | first byte direct, p50 ms | first byte gateway, p50 ms | added ms | gateway CPU ms per 1,000 tokens | gateway peak memory MB |",
		"|---|---|---|---|---|---|---|---|---|",
		...paced.map(toRow),
		"",
		`As fast as it goes, ${saturated.scenario.streams} streams on an unpaced engine: ` +
			`${Math.round(rate(saturated.relayed))} tokens/s through the gateway (${Math.round(rate(saturated.direct))} direct), ` +
			`${cpuPer1000(saturated).toFixed(1)} ms of CPU per 1,000 tokens, peak memory ${Math.round(saturated.maxRssMb)} MB.`,
	];
}

function toRow(measured: Measured): string {
	const { scenario, direct, relayed, maxRssMb } = measured;
	const [directRate, relayedRate] = [rate(direct), rate(relayed)];
	const [directFirst, relayedFirst] = [firstByte(direct), firstByte(relayed)];
	const cells = [
		scenario.streams,
		Math.round(directRate),
		Math.round(relayedRate),
		(relayedRate / directRate).toFixed(3),
		directFirst.toFixed(2),
		relayedFirst.toFixed(2),
		(relayedFirst - directFirst).toFixed(2),
		cpuPer1000(measured).toFixed(1),
		Math.round(maxRssMb),
	];
	return `| ${cells.join(" | ")} |`;
}

/** Median over the rounds. */
function rate(results: LoadResult[]): number {
	return median(results.map(({ events, wallMs }) => (events / wallMs) * 1000));
}

function firstByte(results: LoadResult[]): number {
	return median(results.flatMap(({ firstByteMs }) => firstByteMs));
}

function cpuPer1000({ relayed, cpuMs }: Measured): number {
	return (cpuMs / relayed.reduce((sum, { events }) => sum + events, 0)) * 1000;
}

function median(values: number[]): number {
	const sorted = values.toSorted((a, b) => a - b);
	return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
