import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { childEnvironment, newEnoughNode, ROOT } from "../node24.mjs";

const SERVE = /http:\/\/127\.0\.0\.1:\d+/;

/** A server of our own on loopback. Dispose to end it. */
export async function startPaddock(home, log) {
	const child = spawn(newEnoughNode(), ["bin/paddock.mjs", "serve", "--port", "0"], {
		cwd: ROOT,
		env: childEnvironment({ PADDOCK_HOME: home }),
		stdio: ["ignore", "ignore", "pipe"],
	});
	let said = "";
	child.stderr.on("data", (chunk) => {
		if (!SERVE.test(said)) said += chunk;
		appendFileSync(log, chunk);
	});
	while (!SERVE.test(said)) {
		if (child.exitCode !== null) throw new Error(`paddock serve ended with ${child.exitCode}; see ${log}`);
		await sleep(100);
	}
	return {
		url: SERVE.exec(said)[0],
		async [Symbol.asyncDispose]() {
			if (child.exitCode !== null) return;
			child.kill("SIGTERM");
			await once(child, "exit");
		},
	};
}

/** Starts `n` rollouts of a task; returns their ids. */
export async function submit(server, task, { n = 1, ...terms }) {
	const { rollouts } = await call(server, "/rollouts", { task, n, ...terms });
	return rollouts.map((rollout) => rollout.id);
}

export async function waitFor(server, id) {
	for (;;) {
		const result = await call(server, `/rollouts/${id}/finalize?wait_s=50`, {});
		if (result.outcome !== null) return result;
	}
}

export function get(server, path) {
	return call(server, path);
}

export async function getLines(server, path) {
	const text = await (await answerTo(server, path)).text();
	return text
		.split("\n")
		.filter((line) => line !== "")
		.map((line) => JSON.parse(line));
}

export function toLines(values) {
	return values.map((value) => `${JSON.stringify(value)}\n`).join("");
}

/** As a rollout is told of an engine. */
export function endpointOf({ baseUrl }) {
	return { type: "url", baseUrl, model: "proof", dialect: "auto" };
}

async function call(server, path, body) {
	return await (await answerTo(server, path, body)).json();
}

async function answerTo(server, path, body) {
	const response = await fetch(`${server.url}/api/v1${path}`, {
		...(body === undefined
			? {}
			: { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
	});
	if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
	return response;
}
