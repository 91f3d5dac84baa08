import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * A program that starts and answers as `opencode serve` does, but misbehaves as its environment says: the real one cannot be made to
 * start slowly, to fall silent, or to flood its log at will. It notes every start and every request in files beside it.
 */
export async function writeFakeServe(folder: string): Promise<string> {
	const path = join(folder, "opencode");
	await writeFile(path, `#!${process.execPath}\n${PROGRAM}`);
	await chmod(path, 0o755);
	return path;
}

const PROGRAM = `
const { appendFileSync, existsSync, readFileSync } = require("node:fs");
const { createServer } = require("node:http");
const { join } = require("node:path");
const { env } = process;
const note = (name, text) => appendFileSync(join(__dirname, name), text + "\\n");
const isAlive = (pid) => { try { return process.kill(pid, 0); } catch { return false; } };
const earlier = existsSync(join(__dirname, "starts")) ? readFileSync(join(__dirname, "starts"), "utf8").split("\\n").filter(Number) : [];
for (const pid of earlier) if (isAlive(Number(pid))) note("beside", pid);
note("starts", String(process.pid));
note("environment", JSON.stringify(env));
if (env.FAKE_EXIT === "silently") process.exit(3);
if (env.FAKE_EXIT) { console.error("it cannot start: " + env.OPENCODE_SERVER_PASSWORD); process.exit(3); }
if (env.FAKE_STUBBORN) process.on("SIGTERM", () => note("terms", "TERM"));
const isOurs = (request) => env.FAKE_OPEN || request.headers.authorization === "Basic " + Buffer.from("opencode:" + env.OPENCODE_SERVER_PASSWORD).toString("base64");
let isListening = false;
const server = createServer((request, response) => {
	note("requests", (isListening ? "" : "early ") + request.url);
	if (existsSync(join(__dirname, "silent"))) return;
	response.writeHead(isOurs(request) ? 200 : 401, { "content-type": "application/json" });
	response.end(JSON.stringify({ healthy: true, version: "fake" }));
});
const flood = Number(env.FAKE_FLOOD ?? 0);
setTimeout(() => server.listen(0, "127.0.0.1", () => {
	if (env.FAKE_MUTE) return;
	// It takes connections a while before it says so, as the real one does.
	setTimeout(() => {
		isListening = true;
		const port = env.FAKE_PORT ?? server.address().port;
		console.log((env.FAKE_WORDS ?? "opencode server listening on") + " http://127.0.0.1:" + port);
		const line = "x".repeat(1023);
		for (let sent = 0; sent < flood; sent += 1024) console.log(line);
		if (flood > 0) note("flooded", String(flood));
	}, 100);
}), Number(env.FAKE_SLOW ?? 0));
`;
