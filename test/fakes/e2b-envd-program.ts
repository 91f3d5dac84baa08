import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { chown, mkdir, readFile } from "node:fs/promises";
import http from "node:http";
import { dirname } from "node:path";
import { pipeline } from "node:stream/promises";

/**
 * The daemon inside a stand-in of an E2B machine: the part of envd's documented interface (Connect protocol in JSON,
 * and files over HTTP) that the official SDK uses for commands and uploads. It runs as the machine's root and starts
 * real processes as the user a request names.
 *
 * argv[2]: the socket to listen on.
 */
const USERS: Record<string, { uid: number; home: string }> = {
	root: { uid: 0, home: "/root" },
	user: { uid: 1000, home: "/home/user" },
};
const children = new Map<number, ChildProcess>();

await mkdir("/home/user", { recursive: true });
await chown("/home/user", 1000, 1000);

const server = http.createServer((request, response) => {
	answer(request, response).catch((error) => refuse(response, 500, "internal", error.message));
});
server.listen(process.argv[2], () => process.stdout.write("ready\n"));

async function answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
	const url = new URL(request.url ?? "/", "http://envd");
	const route = `${request.method} ${url.pathname}`;
	if (route === "GET /health") return void response.writeHead(204).end();
	if (route === "POST /files") return await receiveFiles(request, response, url);
	if (route === "GET /files") return await sendFile(response, url);
	const call = url.pathname.replace("/process.Process/", "");
	if (call === "Start") return await startProcess(request, response);
	if (call === "SendInput") return await sendInput(await readJson(request), response);
	if (call === "CloseStdin") return closeStdin(await readJson(request), response);
	if (call === "SendSignal") return sendSignal(await readJson(request), response);
	refuse(response, 404, "unimplemented", url.pathname);
}

// --- processes -------------------------------------------------------------------------------------------------

interface StartRequest {
	process: { cmd: string; args?: string[]; envs?: Record<string, string>; cwd?: string };
	stdin?: boolean;
}

async function startProcess(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
	const body = await readAll(request);
	const asked = JSON.parse(body.subarray(5).toString()) as StartRequest;
	const { uid, home } = userOf(request);
	const child = spawn(asked.process.cmd, asked.process.args ?? [], {
		cwd: asked.process.cwd ?? home,
		env: { HOME: home, PATH: "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", ...asked.process.envs },
		uid,
		gid: uid,
		stdio: [asked.stdin ? "pipe" : "ignore", "pipe", "pipe"],
	});
	response.writeHead(200, { "content-type": "application/connect+json" });
	const tell = (event: unknown) => response.write(envelope(0, { event }));
	const pid = child.pid ?? 0;
	children.set(pid, child);
	tell({ start: { pid } });
	for (const name of ["stdout", "stderr"] as const) {
		child[name]?.on("data", (chunk: Buffer) => {
			if (tell({ data: { [name]: chunk.toString("base64") } })) return;
			child[name]?.pause();
			response.once("drain", () => child[name]?.resume());
		});
	}
	child.stdin?.on("error", () => {});
	child.on("error", (error) => tell({ data: { stderr: Buffer.from(error.message).toString("base64") } }));
	child.on("close", (code, signal) => {
		children.delete(pid);
		const status = signal === null ? `exit status ${code}` : `signal: ${signal}`;
		tell({ end: { exitCode: code ?? -1, exited: signal === null, status } });
		response.end(envelope(2, {}));
	});
}

interface Selected {
	process: { pid: number };
	input?: { stdin?: string };
	signal?: string;
}

async function sendInput(body: Selected, response: http.ServerResponse): Promise<void> {
	const stdin = children.get(body.process.pid)?.stdin;
	if (!stdin) return refuse(response, 404, "not_found", "no such process");
	const bytes = Buffer.from(body.input?.stdin ?? "", "base64");
	// Like a pipe: the answer waits until the process has room.
	await new Promise<void>((resolve) => stdin.write(bytes, () => resolve()));
	reply(response, {});
}

function closeStdin(body: Selected, response: http.ServerResponse): void {
	children.get(body.process.pid)?.stdin?.end();
	reply(response, {});
}

function sendSignal(body: Selected, response: http.ServerResponse): void {
	const child = children.get(body.process.pid);
	child?.kill(body.signal === "SIGNAL_SIGKILL" ? "SIGKILL" : "SIGTERM");
	if (child === undefined) refuse(response, 404, "not_found", "no such process");
	else reply(response, {});
}

// --- files -----------------------------------------------------------------------------------------------------

async function receiveFiles(
	request: http.IncomingMessage,
	response: http.ServerResponse,
	url: URL,
): Promise<void> {
	const { uid } = USERS[url.searchParams.get("username") ?? "user"] ?? { uid: 1000 };
	const type = request.headers["content-type"] ?? "";
	const written: string[] = [];
	if (type.startsWith("application/octet-stream")) {
		const path = url.searchParams.get("path") ?? "";
		await mkdir(dirname(path), { recursive: true });
		await pipeline(request, createWriteStream(path));
		written.push(path);
	} else {
		const form = await new Response(new Uint8Array(await readAll(request)), {
			headers: { "content-type": type },
		}).formData();
		for (const file of form.getAll("file") as File[]) {
			const path = url.searchParams.get("path") ?? file.name;
			await mkdir(dirname(path), { recursive: true });
			await pipeline(file.stream(), createWriteStream(path));
			written.push(path);
		}
	}
	for (const path of written) await chown(path, uid, uid);
	reply(
		response,
		written.map((path) => ({ name: path.split("/").at(-1), type: "file", path })),
	);
}

async function sendFile(response: http.ServerResponse, url: URL): Promise<void> {
	const content = await readFile(url.searchParams.get("path") ?? "").catch(() => null);
	if (content === null) return refuse(response, 404, "not_found", "no such file");
	response.end(content);
}

// --- the wire --------------------------------------------------------------------------------------------------

function userOf(request: http.IncomingMessage): { uid: number; home: string } {
	const basic = Buffer.from((request.headers.authorization ?? "").replace("Basic ", ""), "base64").toString();
	return USERS[basic.split(":")[0] || "user"] ?? { uid: 1000, home: "/home/user" };
}

function envelope(flags: number, message: unknown): Buffer {
	const body = Buffer.from(JSON.stringify(message));
	const head = Buffer.alloc(5);
	head.writeUInt8(flags, 0);
	head.writeUInt32BE(body.length, 1);
	return Buffer.concat([head, body]);
}

async function readAll(request: http.IncomingMessage): Promise<Buffer> {
	const chunks: Buffer[] = [];
	for await (const chunk of request) chunks.push(chunk);
	return Buffer.concat(chunks);
}

async function readJson(request: http.IncomingMessage): Promise<Selected> {
	return JSON.parse((await readAll(request)).toString()) as Selected;
}

function reply(response: http.ServerResponse, body: unknown): void {
	response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function refuse(response: http.ServerResponse, status: number, code: string, message: string): void {
	if (!response.headersSent) response.writeHead(status, { "content-type": "application/json" });
	response.end(JSON.stringify({ code, message }));
}
