import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { placeAt, ServeClient } from "../../src/agent/serve/client.ts";

test("a server that takes a request and falls silent is an error of the agent, worth another try", async () => {
	await using server = await openServer(() => {});
	await expect(server.client.health()).rejects.toMatchObject({
		boundary: "agent",
		code: "agent_api_error",
		retryable: true,
	});
});

test("a server that stops in the middle of its answer is the same", async () => {
	await using server = await openServer((response) => {
		response.writeHead(200, { "content-type": "application/json" });
		response.write('{"version":');
	});
	await expect(server.client.health()).rejects.toMatchObject({ code: "agent_api_error", retryable: true });
});

async function openServer(answer: (response: import("node:http").ServerResponse) => void) {
	const server = createServer((_request, response) => answer(response));
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const { port } = server.address() as AddressInfo;
	const client = new ServeClient(placeAt(`http://127.0.0.1:${port}`), { password: "x", directory: "/" });
	return {
		client,
		async [Symbol.asyncDispose]() {
			client.close();
			server.closeAllConnections();
			await new Promise((resolve) => server.close(resolve));
		},
	};
}
