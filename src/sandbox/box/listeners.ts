import { chmod, chown } from "node:fs/promises";
import net from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { RolloutError } from "../../errors.ts";
import {
	type BoxOptions,
	CONTROL_SOCKET,
	type Doors,
	EGRESS_SOCKET,
	GATEWAY_SOCKET,
	ROOM,
} from "./launch.ts";

/** The longest path the kernel takes for a unix socket. */
const MAX_SOCKET_PATH_BYTES = 107;

/** The host's listeners of one box. One socket per box says which box is calling, so no token is needed. */
export async function listenForBox(options: BoxOptions, doors: Doors): Promise<{ close(): Promise<void> }> {
	const folder = options.runDirectory;
	const servers: net.Server[] = [];
	const close = async () => {
		await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
	};
	if (folder === null) return { close };
	const open = async (name: string, room: number, accept: (connection: Duplex) => void) => {
		const server = await listen(join(folder, name), options.socketOwner, accept);
		server.maxConnections = room;
		servers.push(server);
	};
	await open(CONTROL_SOCKET, ROOM.control, doors.acceptControl);
	if (options.onGateway) await open(GATEWAY_SOCKET, ROOM.gateway, doors.acceptGateway);
	if (options.onEgress) await open(EGRESS_SOCKET, ROOM.egress, doors.acceptEgress);
	return { close };
}

async function listen(
	path: string,
	owner: number | undefined,
	accept: (connection: Duplex) => void,
): Promise<net.Server> {
	if (Buffer.byteLength(path) > MAX_SOCKET_PATH_BYTES) {
		throw new RolloutError("sandbox", "run_directory_too_long", `${path} is too long for a unix socket`);
	}
	const connections = new Set<net.Socket>();
	const server = net.createServer({ allowHalfOpen: true }, (connection) => {
		connections.add(connection);
		connection.on("error", () => connection.destroy());
		connection.on("close", () => connections.delete(connection));
		accept(connection);
	});
	await new Promise<void>((resolve, reject) => {
		server.on("error", reject);
		server.listen(path, resolve);
	});
	const closeServer = server.close.bind(server);
	server.close = (done) => {
		for (const connection of connections) connection.destroy();
		return closeServer(done);
	};
	await chmod(path, 0o600);
	if (owner !== undefined) await chown(path, owner, owner);
	return server;
}
