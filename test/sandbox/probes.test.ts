import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Backend } from "../../src/sandbox/sandbox.ts";
import { requirePart } from "../fixtures/parts.ts";
import { fileProbes } from "./probes/files.ts";
import { limitProbes } from "./probes/limits.ts";
import type { Finding, Probe, Range } from "./probes/probe.ts";
import { networkProbes, processProbes } from "./probes/processes.ts";
import { neededProbes, syscallProbes } from "./probes/syscalls.ts";

const groups: Record<string, Probe[]> = {
	files: fileProbes,
	processes: processProbes,
	network: networkProbes,
	limits: limitProbes,
	syscalls: process.arch === "x64" ? syscallProbes : [],
};

describe("from inside a local box one cannot", () => {
	let range: Range;
	let backend: Backend;
	let ready = false;
	const servers: Server[] = [];
	const table: [group: string, probe: string, finding: Finding][] = [];

	beforeAll(async () => {
		backend = await openLocalBackend();
		ready = (await backend.available()).ok;
		if (!ready) return;
		const abstractName = `paddock-probe-${process.pid}`;
		const canary = `canary-${process.pid}-do-not-leak`;
		process.env.PADDOCK_PROBE_CANARY = canary;
		servers.push(await listen({ port: 0, host: "0.0.0.0" }), await listen({ path: `\0${abstractName}` }));
		const hostPort = (servers[0]!.address() as { port: number }).port;
		const options = { spec: BoxSpec.parse({}), onGateway: (c: { destroy(): void }) => c.destroy() };
		const [box, neighbour] = [await backend.open(options), await backend.open(options)];
		range = { backend, box, neighbour, canary, hostPort, abstractName };
	});

	afterAll(async () => {
		for (const server of servers) server.close();
		await backend[Symbol.asyncDispose]();
		if (ready) print(table);
	});

	for (const [group, probes] of Object.entries(groups)) {
		describe(group, () => {
			test.each(probes)("$name", async (probe) => {
				const finding = await probe.run(range);
				table.push([group, probe.name, finding]);
				expect(finding).toMatchObject({ contained: true });
			});
		});
	}

	test.each(process.arch === "x64" ? neededProbes : [])("lose an ordinary call: $name", async (probe) => {
		expect(await probe.run(range)).toMatchObject({ contained: true });
	});

	test.beforeEach((context) =>
		requirePart(context, "bubblewrap", ready, "apt-get install bubblewrap; paddock doctor says more"),
	);
});

function listen(where: { port: number; host: string } | { path: string }): Promise<Server> {
	const server = createServer((connection) => connection.end());
	return new Promise((resolve, reject) => {
		server.on("error", reject);
		server.listen(where, () => resolve(server));
	});
}

function print(table: [string, string, Finding][]): void {
	const lines = table.map(([group, probe, { contained, seen }], index) => {
		const shown = seen.replace(/\s+/g, " ").slice(0, 60);
		return `${String(index + 1).padStart(3)}  ${group.padEnd(10)} ${probe.padEnd(62)} ${contained ? "contained" : "ESCAPED  "}  ${shown}`;
	});
	const held = table.filter(([, , finding]) => finding.contained).length;
	console.log(`${lines.join("\n")}\n${held} of ${table.length} attack probes contained`);
}
