import { createServer } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestPaddock, type TestPaddock } from "../fixtures/paddock.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";

let station: TestPaddock;
beforeAll(async () => {
	station = await openTestPaddock();
});
afterAll(async () => await station?.[Symbol.asyncDispose]());

const verify = ["grep -q 42 answer", "false"];

describe("the real agent cannot get rid of its verdict", () => {
	test("by killing its own program", async () => {
		const kill = "echo 42 > answer; pkill -9 -f 'opencode serv[e]'";
		await using model = await openScriptedModel([bash(kill), say("done")]);
		const result = await station.run({ task: task({ verify }), endpoint: model.endpoint, maxAttempts: 1 });
		expect(result).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
	});

	test("by words in its conversation that the model's server refuses", async () => {
		await using model = await openScriptedModel([bash("echo 42 > answer; echo nobody"), say("done")]);
		await using strict = await openStrict(model.endpoint.baseUrl);
		const endpoint = { ...model.endpoint, baseUrl: strict.baseUrl };
		const result = await station.run({ task: task({ verify }), endpoint, maxAttempts: 1 });
		expect(strict.refused).toBeGreaterThan(0);
		expect(result).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
	});
});

/** The same model behind a server that refuses to hear of nobody. */
async function openStrict(upstream: string) {
	let refused = 0;
	const server = createServer(async (request, response) => {
		const chunks: Buffer[] = [];
		for await (const chunk of request) chunks.push(chunk);
		const body = Buffer.concat(chunks);
		if (body.includes("nobody")) {
			refused += 1;
			response.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"nobody"}}');
			return;
		}
		const { authorization = "", "content-type": type = "application/json" } = request.headers;
		const url = `${new URL(upstream).origin}${request.url}`;
		const headers = { authorization, "content-type": type };
		const answer = await fetch(url, {
			method: request.method ?? "GET",
			headers,
			body: body.length > 0 ? body : null,
		});
		response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
		response.end(Buffer.from(await answer.arrayBuffer()));
	});
	await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
	const { port } = server.address() as { port: number };
	return {
		baseUrl: `http://127.0.0.1:${port}${new URL(upstream).pathname}`,
		get refused() {
			return refused;
		},
		[Symbol.asyncDispose]: async () => void server.close(),
	};
}
