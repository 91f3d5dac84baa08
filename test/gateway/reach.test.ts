import { spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { Reach, troubleWith } from "../../src/gateway/upstream/reach.ts";

/** Listens, never accepts, and has no room for one more: what is sent there is neither answered nor refused. */
const SILENT = `
import socket, time
host = socket.socket(); host.bind(("127.0.0.1", 0)); host.listen(0)
full = [socket.socket() for _ in range(4)]
for each in full: each.setblocking(False); each.connect_ex(host.getsockname())
print(host.getsockname()[1], flush=True)
time.sleep(600)
`;

async function openSilentHost(): Promise<{ baseUrl: string } & Disposable> {
	const child = spawn("python3", ["-c", SILENT], { stdio: ["ignore", "pipe", "inherit"] });
	const [port] = await once(createInterface({ input: child.stdout }), "line");
	return { baseUrl: `http://127.0.0.1:${port}/v1`, [Symbol.dispose]: () => void child.kill("SIGKILL") };
}

/** Takes connections, counts them and says nothing. */
async function openMuteHost(port = 0) {
	let taken = 0;
	const server = createServer((socket) => {
		taken++;
		socket.on("error", () => {}).resume();
	}).listen(port, "127.0.0.1");
	await once(server, "listening");
	return {
		port: (server.address() as AddressInfo).port,
		taken: () => taken,
		[Symbol.asyncDispose]: async () => {
			server.close();
			await once(server, "close");
		},
	};
}

const stay = new AbortController().signal;

test("a host that says nothing is given up within the limit; one that is only busy is there", async () => {
	using silent = await openSilentHost();
	await using mute = await openMuteHost();
	expect(await troubleWith(silent.baseUrl)).toBe("no connection within 2.5 s");
	expect(await troubleWith(`http://127.0.0.1:${mute.port}/v1`)).toBeNull();
	expect(await troubleWith("http://no-such-host.invalid/v1")).toMatch(/ENOTFOUND|EAI_AGAIN/);
});

test("an endpoint is looked at once for a whole batch, and one that is away fails all of it, worth another try", async () => {
	const reach = new Reach();
	const mute = await openMuteHost();
	const baseUrl = `http://127.0.0.1:${mute.port}/v1`;
	await Promise.all(Array.from({ length: 50 }, () => reach.require(baseUrl, stay)));
	await reach.require(`${baseUrl}/other`, stay);
	expect(mute.taken()).toBe(1);
	await mute[Symbol.asyncDispose]();
	const other = new Reach();
	const ends = await Promise.allSettled(Array.from({ length: 50 }, () => other.require(baseUrl, stay)));
	for (const end of ends)
		expect(end).toMatchObject({
			reason: {
				...{ boundary: "provider", code: "provider_unreachable", retryable: true },
				message: `the model endpoint ${baseUrl} cannot be reached (ECONNREFUSED)`,
			},
		});
});

test("an engine that is being restarted is waited for, unless its rollout is aborted", async () => {
	const before = await openMuteHost();
	await before[Symbol.asyncDispose]();
	const reach = new Reach();
	const baseUrl = `http://127.0.0.1:${before.port}/v1`;
	const aborting = new AbortController();
	const aborted = reach.require(baseUrl, aborting.signal);
	const waiting = reach.require(baseUrl, stay);
	aborting.abort(new Error("no longer wanted"));
	await expect(aborted).rejects.toThrow("no longer wanted");
	await using _after = await openMuteHost(before.port);
	await waiting;
});
