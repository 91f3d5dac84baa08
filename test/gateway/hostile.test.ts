import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openUpstream } from "../fakes/upstream.ts";

const BOXES = 8;
const ROUNDS = 6;
/** It takes 490 to 515 here, where 4,200 were taken before bodies were measured; what it took is printed. */
const MAX_MB = 600;

const CALL = { messages: [{ role: "user", content: "hello" }] };
const ANSWER = JSON.stringify({
	model: "m",
	choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
	usage: { prompt_tokens: 1, completion_tokens: 1 },
});

test(`${BOXES} boxes that send the worst they can neither end nor fill the server, nor keep an honest one waiting`, async () => {
	await using upstream = await openUpstream(({ response }) => {
		response.writeHead(200, { "content-type": "application/json" }).end(ANSWER);
	});
	using server = start("hostile-server-program.ts", [upstream.baseUrl, String(BOXES + 1)]);
	const { serverUrl, gatewayUrl, keys, idleMb } = await server.hears<Hello>();
	const [honest, ...hostile] = keys;
	const attackers = hostile.map((key) => start("hostile-box-program.ts", [gatewayUrl, key, String(ROUNDS)]));
	using _attackers = { [Symbol.dispose]: () => attackers.forEach((box) => void box[Symbol.dispose]()) };
	const attack = Promise.all(attackers.map((box) => box.hears<Record<string, number>>()));
	let isOver = false;
	const over = attack.finally(() => {
		isOver = true;
	});
	const healthMs: number[] = [];
	const calls: number[] = [];
	while (!isOver) {
		const before = performance.now();
		expect((await fetch(`${serverUrl}/api/v1/health`)).status).toBe(200);
		healthMs.push(performance.now() - before);
		calls.push(await callAs(gatewayUrl, honest!));
		await Promise.race([over, delay(50)]);
	}
	const statuses = await over;
	server.child.send("peak");
	const { peakMb, longestTurnMs } = await server.hears<{ peakMb: number; longestTurnMs: number }>();
	healthMs.sort((a, b) => a - b);
	const [median, worst] = [healthMs[healthMs.length >> 1]!, healthMs.at(-1)!];
	console.info(
		`health during the attack: median ${median.toFixed(0)} ms, worst ${worst.toFixed(0)} ms of ${healthMs.length}; ` +
			`longest turn of the server's loop ${longestTurnMs.toFixed(0)} ms; ` +
			`memory ${idleMb.toFixed(0)} MB idle, ${peakMb.toFixed(0)} MB at its peak; answers ${JSON.stringify(statuses[0])}`,
	);
	expect(new Set(calls)).toEqual(new Set([200]));
	expect(peakMb).toBeLessThan(MAX_MB);
	for (const seen of statuses) expect(seen["200"]).toBeGreaterThan(0);
	expect(await callAs(gatewayUrl, honest!)).toBe(200);
});

interface Hello {
	serverUrl: string;
	gatewayUrl: string;
	keys: string[];
	idleMb: number;
}

let turn = 0;

async function callAs(gatewayUrl: string, key: string): Promise<number> {
	turn += 1;
	const response = await fetch(`${gatewayUrl}/chat/completions`, {
		method: "POST",
		headers: { authorization: `Bearer ${key}` },
		body: JSON.stringify({ messages: [...CALL.messages, { role: "user", content: `${turn}` }] }),
	});
	await response.arrayBuffer();
	return response.status;
}

function start(file: string, args: string[]) {
	const path = fileURLToPath(new URL(file, import.meta.url));
	const child: ChildProcess = fork(path, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
	const died = once(child, "exit").then(([code, signal]) =>
		Promise.reject(new Error(`${file} ended with ${code ?? signal}`)),
	);
	// Being killed at the end is no news; whoever waits for an answer is told.
	died.catch(() => {});
	return {
		child,
		async hears<T>(): Promise<T> {
			const [message] = await Promise.race([once(child, "message"), died]);
			return message as T;
		},
		[Symbol.dispose]: () => void child.kill(),
	};
}
