import { createServer, type Server } from "node:http";
import net from "node:net";
import { expect } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import type { Backend } from "../../src/sandbox/sandbox.ts";

/** A box with an allowlist reaches the host's proxy and nothing else; what it asked for is on record. */
export async function expectGuardedWayOut(backend: Backend): Promise<void> {
	await using box = await backend.open({
		spec: BoxSpec.parse({ network: { allow: ["allowed.invalid"] } }),
		onGateway: (connection) => connection.destroy(),
	});
	const ask = (host: string) =>
		box.exec(
			`exec 3<>/dev/tcp/127.0.0.1/7001; printf 'CONNECT ${host}:443 HTTP/1.1\\r\\nhost: ${host}\\r\\n\\r\\n' >&3; head -n 1 <&3`,
			{ timeoutMs: 20_000 },
		);
	expect((await ask("other.invalid")).stdout).toContain("403");
	expect((await box.exec('echo "$https_proxy"')).stdout).toBe("http://127.0.0.1:7001\n");
	expect((await box.exec("exec 3<>/dev/tcp/192.0.2.1/80", { timeoutMs: 5_000 })).exitCode).not.toBe(0);
	expect(box.facts.networkAsked).toMatchObject([{ host: "other.invalid", port: 443, allowed: false }]);
}

/** A server that stands for the outside, and routes that lead every public address to it. */
export async function startWorld(answer?: string) {
	const heard: string[] = [];
	const server: Server | net.Server =
		answer === undefined
			? createServer((request, response) => response.end(`world ${request.url}`))
			: net.createServer((socket) => {
					socket.once("data", (chunk) => {
						heard.push(chunk.toString("latin1"));
						socket.end(answer);
					});
				});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const { port } = server.address() as net.AddressInfo;
	return {
		heard,
		routes: { resolve: async () => ["1.1.1.1"], dial: () => net.connect(port, "127.0.0.1") },
		[Symbol.asyncDispose]: async () => void server.close(),
	};
}
