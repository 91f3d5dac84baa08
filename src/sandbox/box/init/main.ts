/**
 * The first process inside a box, run by the agent's own binary acting as Bun; the box needs no other runtime.
 * It trusts only the host: it connects out once, before any agent code exists, and does what arrives there.
 * For each order the host sends a nonce; this process connects again with it and serves one operation.
 */

import { connect, type Socket } from "node:net";
import { resolve } from "node:path";
import {
	type ConnectRequest,
	type Hello,
	INIT_EXIT,
	type InitConfig,
	type Order,
	type Request,
} from "../wire.ts";
import { isRunning, runCommand, signalCommand } from "./command.ts";
import { exists, listFolder, readFile, writeFiles } from "./files.ts";
import { fail, finish, onLines, onRequest } from "./frames.ts";
import { killAll } from "./kill-all.ts";
import { adoptOrphans, filterSystemCalls, ignoreSignals } from "./libc.ts";
import { Limits } from "./limits.ts";
import { reapSoon } from "./processes.ts";
import { wake } from "./readiness.ts";
import { seccompFilter } from "./seccomp.ts";
import { forward, tunnel } from "./streams.ts";

const config: InitConfig = JSON.parse(process.argv[2] ?? "");
const limits = new Limits(config);
process.on("SIGIO", wake);
process.on("SIGCHLD", reapSoon);
if (config.ownPidNamespace) {
	ignoreSignals(["SIGIO", "SIGCHLD"]);
	filterSystemCalls(seccompFilter());
} else adoptOrphans();

greet().catch((error) => {
	console.error(`init: ${error.message}`);
	process.exit(INIT_EXIT.notGreeted);
});

async function greet(): Promise<void> {
	const ports: number[] = [];
	for (const { port, to } of config.forwards) ports.push(await forward(port, to));
	const hello: Hello = { pid: process.pid, ports, hidden: limits.hidden };
	const control = connect({ path: config.control });
	control.on("error", () => process.exit(INIT_EXIT.noHost));
	control.on("close", hostIsGone);
	control.on("connect", () => control.write(`${JSON.stringify({ hello: 1, ...hello })}\n`));
	onLines(control, (line) => obey(JSON.parse(line)));
}

/** Where the box's end is not also the end of its processes, they are ended first. */
async function hostIsGone(): Promise<void> {
	if (!config.ownPidNamespace) await killAll(config);
	process.exit(0);
}

function obey(order: Order): void {
	if ("open" in order) serve(order.open);
	else signalCommand(order.signal, order.name);
}

/** Pause before the host is called again, whose doorstep others have crowded. */
const CALL_AGAIN_MS = 20;

/** One connection, one operation. Anybody in the box can call the host, and may do so without end: it is called until it answers. */
function serve(nonce: string): void {
	const connection = connect({ path: config.control });
	let isThere = false;
	connection.on("error", () => connection.destroy());
	connection.on("close", () => {
		if (!isThere) setTimeout(() => serve(nonce), CALL_AGAIN_MS);
	});
	connection.on("connect", () => {
		isThere = true;
		connection.write(`${JSON.stringify({ nonce })}\n`);
	});
	onRequest(connection, (request, rest) => {
		perform(nonce, connection, request, rest).catch((error) => fail(connection, error));
	});
}

async function perform(nonce: string, connection: Socket, request: Request, rest: Buffer): Promise<void> {
	switch (request.op) {
		case "exec":
			return runCommand(nonce, connection, request, rest, { config, limits });
		case "connect":
			return tunnel(connection, request.port, rest, () => isListener(request));
		case "write":
			return await writeFiles(connection, config.home, rest);
		case "read":
			return await readFile(connection, atHome(request));
		case "list":
			return await listFolder(connection, atHome(request));
		case "exists":
			return finish(connection, { exists: await exists(atHome(request).path) });
		case "killAll":
			return finish(connection, { killed: await killAll(config) });
	}
}

function isListener({ command }: ConnectRequest): boolean {
	return command === undefined || isRunning(command);
}

function atHome<Named extends { path: string }>(request: Named): Named {
	return { ...request, path: resolve(config.home, request.path) };
}
