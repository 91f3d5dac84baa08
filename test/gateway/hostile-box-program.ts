import { request as connect } from "node:http";

/** One box that wants to harm the server: it sends the worst bodies there are, over two connections, one after the other. */
const [gatewayUrl, key, rounds] = [process.argv[2]!, process.argv[3]!, Number(process.argv[4])];
const MB = 1024 * 1024;

const said = (content: string, n: number) => `{"messages":[{"role":"user","content":"${n} ${content}"}]}`;
const WORST: ((n: number) => string)[] = [
	// Fits in every way, and costs the most: escapes, then text of two bytes a character, kept in the trace each time.
	(n) => said('\\n\\"'.repeat((7.9 * MB) / 4), n),
	(n) => said("漢".repeat((7.9 * MB) / 3), n),
	// Small values without end, in what goes upstream and in what does not.
	() => `{"messages":[],"x":[${"[],".repeat(2.6 * MB)}0]}`,
	() => `{"messages":[${'{"role":"user","content":""},'.repeat(30_000)}{"role":"user","content":""}]}`,
	() => `{"messages":[],"x":${"[".repeat(60 * MB)}`,
	() => `{"messages":[],"x":"${"x".repeat(60 * MB)}"}`,
];

const statuses: Record<string, number> = {};

async function attack(lane: number): Promise<void> {
	for (let n = 0; n < rounds; n += 1) {
		const body = WORST[(n + lane * 3) % WORST.length]!(n * 2 + lane);
		const status = await send(body);
		statuses[status] = (statuses[status] ?? 0) + 1;
	}
}

/** Sends on, whatever the server says; how it answered, or that it cut the connection. */
function send(body: string): Promise<string> {
	const { promise, resolve } = Promise.withResolvers<string>();
	const outgoing = connect(`${gatewayUrl}/chat/completions`, {
		method: "POST",
		headers: { authorization: `Bearer ${key}`, "content-length": Buffer.byteLength(body) },
	});
	outgoing.on("response", (response) => {
		response.resume();
		response.once("close", () => resolve(String(response.statusCode)));
	});
	outgoing.on("error", () => resolve("cut"));
	outgoing.end(body);
	return promise;
}

await Promise.all([attack(0), attack(1)]);
process.send!(statuses, () => process.disconnect());
