import type { RequestListener } from "node:http";
import type { Socket } from "node:net";

/** Requests that may wait behind the one being answered; no client that we know sends even one ahead. */
const MAX_AHEAD = 16;

/**
 * One request of a connection at a time. Answers go out in that order anyway, and whoever sends many and reads none would
 * have us make and hold them all.
 */
export function inTurn(answer: RequestListener): RequestListener {
	const lines = new WeakMap<Socket, (() => void)[]>();
	return (request, response) => {
		const { socket } = request;
		const begin = () => {
			response.once("close", () => {
				const next = lines.get(socket)?.shift();
				if (next === undefined) lines.delete(socket);
				else if (!socket.destroyed) next();
			});
			answer(request, response);
		};
		const line = lines.get(socket);
		if (line === undefined) {
			lines.set(socket, []);
			begin();
		} else if (line.length < MAX_AHEAD) line.push(begin);
		else socket.destroy();
	};
}
