import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { Task } from "../../src/model/task.ts";
import { openPolicyServer } from "../../src/policy/server.ts";

/** A scripted model of three turns that notes when it is first asked. */
export interface Stopwatch extends AsyncDisposable {
	/** Without /v1. */
	url: string;
	key: string;
	model: string;
	reset(): void;
	firstRequestAt(): number;
}

const step = (command: string) => ({ calls: [{ tool: "bash", args: { command, description: "a step" } }] });

export async function openStopwatch(): Promise<Stopwatch> {
	const policies = await openPolicyServer();
	const task = Task.parse({ id: "bench", instruction: "Do what is asked." });
	const key = "sk-bench";
	const steps = [step("echo one > one.txt"), step("cat one.txt"), { text: "done" }];
	// Bare OpenCode asks for the model by our alias; a box's calls come by the gateway, which says the same.
	const cast = await policies.cast({ policy: "oracle", task, steps }, { model: "model", apiKey: key });
	let first = Number.NaN;
	const front = createServer((incoming, outgoing) => {
		if (Number.isNaN(first) && incoming.method === "POST") first = performance.now();
		const target = new URL(incoming.url ?? "/", cast.endpoint.baseUrl);
		const { method, headers } = incoming;
		const onward = request(target, { method, headers }, (answer) => {
			outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
			answer.pipe(outgoing);
		});
		onward.on("error", () => outgoing.destroy());
		incoming.pipe(onward);
	});
	await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
	return {
		url: `http://127.0.0.1:${(front.address() as AddressInfo).port}`,
		key,
		model: cast.endpoint.model,
		reset() {
			first = Number.NaN;
		},
		firstRequestAt: () => first,
		async [Symbol.asyncDispose]() {
			front.closeAllConnections();
			front.close();
			cast[Symbol.dispose]();
			await policies[Symbol.asyncDispose]();
		},
	};
}
