import type { AddressInfo, Socket } from "node:net";
import { connect, createServer } from "node:net";
import { FROM_BOX } from "../wire.ts";
import { fail, send } from "./frames.ts";

/**
 * From here on the connection carries bytes to and from a port in the box. Who listens there is looked at once it is connected: a port
 * that was taken over before has nobody left to ask for, and one that is still held cannot be taken over.
 */
export function tunnel(connection: Socket, port: number, rest: Buffer, isListener: () => boolean): void {
	const inner = connect({ port, host: "127.0.0.1" });
	const refused = (error: Error) => fail(connection, error);
	inner.on("error", refused);
	inner.on("connect", () => {
		if (!isListener()) {
			inner.destroy();
			return refused(Object.assign(new Error("who listened there has ended"), { code: "ECONNREFUSED" }));
		}
		inner.removeListener("error", refused);
		send(connection, FROM_BOX.result, "{}");
		if (rest.length > 0) inner.write(rest);
		splice(connection, inner);
	});
}

/** Listens on a port in the box for a socket of the host's; says which port it became. */
export function forward(port: number, to: string): Promise<number> {
	const server = createServer((inner) => splice(inner, connect({ path: to })));
	return new Promise((succeed, reject) => {
		server.on("error", reject);
		server.listen({ port, host: "127.0.0.1" }, () => succeed((server.address() as AddressInfo).port));
	});
}

/**
 * Either end's hanging up ends both, once what was on its way has arrived. This runtime's sockets know no
 * half-close, so there is none to pass on.
 */
function splice(left: Socket, right: Socket): void {
	flow(left, right);
	flow(right, left);
}

/** The end follows when every write is through, and in a turn of its own: ended earlier, this runtime drops the rest. */
function flow(from: Socket, to: Socket): void {
	let unwritten = 0;
	let over = false;
	const endWhenWritten = () => {
		if (over && unwritten === 0) setImmediate(() => to.end());
	};
	const finish = () => {
		over = true;
		endWhenWritten();
	};
	from.on("data", (chunk) => {
		unwritten += 1;
		const keepsUp = to.write(chunk, () => {
			unwritten -= 1;
			endWhenWritten();
		});
		if (keepsUp) return;
		from.pause();
		to.once("drain", () => from.resume());
	});
	from.on("end", finish);
	from.on("close", finish);
	from.on("error", finish);
	from.resume();
}
