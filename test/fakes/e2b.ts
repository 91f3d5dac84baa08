import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { findAgentBinary } from "../../src/host/binary.ts";
import { type Build, TemplateBuilds } from "./e2b-builds.ts";
import { StandInMachine } from "./e2b-vm.ts";

/**
 * A local stand-in of the E2B service for its official SDK, by the documented endpoints: machines are created, listed
 * by metadata, kept alive and deleted; what is meant for a machine goes to the daemon inside it. No account is needed,
 * and nothing here proves how the real service behaves.
 */
export interface StandInE2b extends AsyncDisposable {
	env: Record<string, string>;
	machines(): { id: string; template: string; metadata: Record<string, string>; internet: boolean }[];
	templates(): string[];
	/** Templates that were built here; their steps are kept, not run. */
	builds(): readonly Build[];
	/** How often a machine's life was extended. */
	readonly extensions: number;
	/** Ends a machine as the service would, without a word to anyone. */
	lose(id: string): Promise<void>;
}

const API_KEY = `e2b_${"0123456789abcdef".repeat(3).slice(0, 40)}`;

interface Entry {
	machine: StandInMachine;
	template: string;
	metadata: Record<string, string>;
	internet: boolean;
	token: string;
	startedAt: string;
}

/** Null when it can run here, else what it needs. */
export function missingForE2b(): string | null {
	if (process.getuid?.() !== 0) return "run as root, so that a stand-in machine can have a root and a user";
	return existsSync("/usr/bin/bwrap") ? null : "apt-get install bubblewrap";
}

export async function startE2b(): Promise<StandInE2b> {
	const folder = await mkdtemp("/tmp/pe2-");
	const entries = new Map<string, Entry>();
	const state = { extensions: 0 };
	const builds = new TemplateBuilds();
	/** Template → the OpenCode it brings. `paddock` has one, `bare` has none; snapshots add others. */
	const templates = new Map<string, string | null>([
		["paddock", findAgentBinary()],
		["bare", null],
	]);
	const server = http.createServer((request, response) => {
		const id = request.headers["e2b-sandbox-id"];
		const work =
			typeof id === "string" ? toMachine(entries.get(id), request, response) : control(request, response);
		work.catch((error) => send(response, 500, { code: 500, message: String(error) }));
	});
	const remove = async (id: string) => {
		const entry = entries.get(id);
		entries.delete(id);
		await entry?.machine.stop();
		return entry !== undefined;
	};

	async function control(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
		const url = new URL(request.url ?? "/", "http://e2b");
		if (await builds.receive(request, response)) return;
		if (request.headers["x-api-key"] !== API_KEY)
			return send(response, 401, { code: 401, message: "bad key" });
		const route = `${request.method} ${url.pathname}`;
		if (route === "POST /v2/sandboxes") return await create(await readJson(request), response);
		if (route === "GET /v2/sandboxes") return send(response, 200, list(url.searchParams.get("metadata")));
		if (await builds.answer(request, response, url)) return;
		const [, id = "", action] = /^\/sandboxes\/([^/]+)(?:\/(\w+))?$/.exec(url.pathname) ?? [];
		if (request.method === "DELETE" && id !== "") {
			const found = await remove(id);
			return found
				? send(response, 204, null)
				: send(response, 404, { code: 404, message: "no such sandbox" });
		}
		if (action === "timeout" && entries.has(id)) {
			state.extensions += 1;
			return send(response, 204, null);
		}
		const entry = entries.get(id);
		if (action === "snapshots" && entry !== undefined) {
			const name = String((await readJson(request)).name);
			await entry.machine.snapshot(join(folder, name));
			templates.set(name, join(folder, name));
			return send(response, 201, { snapshotID: name, names: [name] });
		}
		send(response, 404, { code: 404, message: `${route} is not known here` });
	}

	async function create(body: Record<string, unknown>, response: http.ServerResponse): Promise<void> {
		const agent = templates.get(String(body.templateID));
		if (agent === undefined) return send(response, 404, { code: 404, message: "template not found" });
		const id = `i${randomBytes(8).toString("hex")}`;
		const entry: Entry = {
			machine: await StandInMachine.start(join(folder, id), agent),
			template: String(body.templateID),
			metadata: (body.metadata ?? {}) as Record<string, string>,
			internet: body.allow_internet_access !== false,
			token: randomBytes(16).toString("hex"),
			startedAt: new Date().toISOString(),
		};
		entries.set(id, entry);
		const { template: templateID, token: envdAccessToken } = entry;
		send(response, 201, {
			sandboxID: id,
			templateID,
			clientID: "here",
			envdVersion: "0.6.2",
			envdAccessToken,
		});
	}

	function list(filter: string | null): unknown[] {
		const wanted = [...new URLSearchParams(filter ?? "")].map((pair) => pair.map(decodeURIComponent));
		return [...entries]
			.filter(([, { metadata }]) => wanted.every(([key = "", value]) => metadata[key] === value))
			.map(([sandboxID, { template, metadata, startedAt }]) => ({
				...{ sandboxID, templateID: template, clientID: "here", metadata, startedAt, endAt: startedAt },
				...{ state: "running", cpuCount: 2, memoryMB: 512, diskSizeMB: 512, envdVersion: "0.6.2" },
			}));
	}

	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
	return {
		env: { E2B_API_KEY: API_KEY, E2B_API_URL: url, E2B_SANDBOX_URL: url },
		machines: () =>
			[...entries].map(([id, { template, metadata, internet }]) => ({ id, template, metadata, internet })),
		templates: () => [...templates.keys()],
		builds: () => builds.all,
		get extensions() {
			return state.extensions;
		},
		lose: async (id) => void (await remove(id)),
		[Symbol.asyncDispose]: async () => {
			for (const id of entries.keys()) await remove(id);
			server.closeAllConnections();
			await new Promise((done) => server.close(done));
			await rm(folder, { recursive: true, force: true });
		},
	};
}

/** Everything with the header that names a machine goes to the daemon inside it. */
async function toMachine(
	entry: Entry | undefined,
	request: http.IncomingMessage,
	response: http.ServerResponse,
): Promise<void> {
	if (entry === undefined) return send(response, 502, { code: 502, message: "The sandbox was not found" });
	if (request.headers["x-access-token"] !== entry.token) {
		return send(response, 401, { code: "unauthenticated", message: "bad token" });
	}
	const inner = http.request(
		{ socketPath: entry.machine.socket, path: request.url, method: request.method, headers: request.headers },
		(answer) => {
			response.writeHead(answer.statusCode ?? 502, answer.headers);
			answer.pipe(response);
			answer.on("error", () => response.destroy());
		},
	);
	inner.on("error", () => response.destroy());
	response.on("close", () => inner.destroy());
	request.pipe(inner);
}

function send(response: http.ServerResponse, status: number, body: unknown): void {
	if (!response.headersSent) response.writeHead(status, { "content-type": "application/json" });
	response.end(body === null ? undefined : JSON.stringify(body));
}

async function readJson(request: http.IncomingMessage): Promise<Record<string, unknown>> {
	const chunks: Buffer[] = [];
	for await (const chunk of request) chunks.push(chunk);
	return JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
}
