import { once } from "node:events";
import { connect, createServer } from "node:net";

/** A wire between the gateway and the engine that notes when the gateway hangs up. Dispose to cut it. */
export async function openLine(engine) {
	const { port } = new URL(engine.origin);
	const hangUps = [];
	const server = createServer({ allowHalfOpen: true }, (near) => {
		const far = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
		let isAnswering = false;
		far.on("data", () => (isAnswering = true));
		const gone = () => isAnswering && hangUps.push(Date.now());
		near.once("end", gone);
		near.once("error", gone);
		for (const [from, to] of [
			[near, far],
			[far, near],
		]) {
			from.pipe(to);
			from.on("close", () => to.destroy());
			from.on("error", () => to.destroy());
		}
	});
	server.listen(0, "127.0.0.1");
	await once(server, "listening");
	const origin = `http://127.0.0.1:${server.address().port}`;
	return {
		origin,
		baseUrl: `${origin}/v1`,
		hangUps,
		async [Symbol.asyncDispose]() {
			server.close();
		},
	};
}
