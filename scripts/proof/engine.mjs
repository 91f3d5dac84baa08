import { spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { createServer } from "node:net";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const START_MS = 10 * 60_000;

/** A real vLLM on CPU, on loopback. Dispose to end it, with all its processes. */
export async function startEngine(python, model, { mode, log, options = [] }) {
	const port = await freePort();
	const output = openSync(log, "a");
	// Its threads spin by the dozen; a core of its own stands for the machine that an engine has elsewhere.
	const [program, ...pinned] = availableParallelism() > 1 ? ["taskset", "-c", "0"] : ["env"];
	const child = spawn(
		program,
		[
			...pinned,
			join(dirname(python), "vllm"),
			"serve",
			model,
			"--served-model-name",
			"proof",
			"--host",
			"127.0.0.1",
			"--port",
			String(port),
		].concat(
			["--dtype", "float32", "--max-model-len", "32768", "--enforce-eager"],
			["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--logprobs-mode", mode],
			options,
		),
		{
			detached: true,
			stdio: ["ignore", output, output],
			env: {
				...process.env,
				PYTHONPATH: dirname(fileURLToPath(import.meta.url)),
				VLLM_TARGET_DEVICE: "cpu",
				VLLM_CPU_KVCACHE_SPACE: "2",
				VLLM_CPU_OMP_THREADS_BIND: "nobind",
				OMP_NUM_THREADS: "1",
				VLLM_NO_USAGE_STATS: "1",
				HF_HUB_OFFLINE: "1",
				TOKENIZERS_PARALLELISM: "false",
			},
		},
	);
	const origin = `http://127.0.0.1:${port}`;
	const engine = {
		origin,
		baseUrl: `${origin}/v1`,
		async [Symbol.asyncDispose]() {
			if (child.exitCode !== null) return;
			process.kill(-child.pid, "SIGTERM");
			await once(child, "exit");
		},
	};
	await untilHealthy(child, origin, log);
	return engine;
}

async function untilHealthy(child, origin, log) {
	const deadline = Date.now() + START_MS;
	while (Date.now() < deadline) {
		if (child.exitCode !== null) throw new Error(`the engine ended with ${child.exitCode}; see ${log}`);
		const isHealthy = await fetch(`${origin}/health`).then(
			(response) => response.ok,
			() => false,
		);
		if (isHealthy) return;
		await sleep(500);
	}
	throw new Error(`the engine did not start; see ${log}`);
}

async function freePort() {
	const server = createServer().listen(0, "127.0.0.1");
	await once(server, "listening");
	const { port } = server.address();
	server.close();
	return port;
}

/** How many tokens the engine has sampled since it started. */
export function sampledTokens(engine) {
	return metric(engine, "vllm:generation_tokens_total");
}

/** How many requests it works on just now. */
export function requestsUnderWay(engine) {
	return metric(engine, "vllm:num_requests_running");
}

async function metric(engine, name) {
	const text = await (await fetch(`${engine.origin}/metrics`)).text();
	const line = text.split("\n").find((row) => row.startsWith(`${name}{`));
	return Number(line?.split(" ").at(-1) ?? 0);
}
