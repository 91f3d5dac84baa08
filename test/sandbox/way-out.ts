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
