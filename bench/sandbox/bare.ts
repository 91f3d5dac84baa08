import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { agentEnvironment, agentFiles } from "../../src/agent/opencode-config.ts";
import { placeAt, ServeClient } from "../../src/agent/serve/client.ts";
import { ServeConversation } from "../../src/agent/serve/conversation.ts";
import { findAgentBinary } from "../../src/host/binary.ts";
import { AgentOptions } from "../../src/model/request.ts";
import type { Stopwatch } from "./stopwatch.ts";

export interface Figures {
	firstRequest: number;
	threeTurns: number;
}

const options = AgentOptions.parse({});
const binary = findAgentBinary();

/** OpenCode by hand: a server without any box, one session, one prompt. Counted from the start of the process. */
export async function bareServe(model: Stopwatch): Promise<Figures> {
	await using place = await openPlace(model);
	const since = performance.now();
	const child = spawn(binary, ["serve", "--hostname", "127.0.0.1", "--port", "0"], {
		cwd: "/",
		env: place.env,
	});
	const port = await listening(child);
	const client = new ServeClient(placeAt(`http://127.0.0.1:${port}`), {
		password: "x",
		directory: place.workdir,
	});
	const conversation = new ServeConversation(client, { directory: place.workdir, title: "bench" });
	await conversation.start();
	await conversation.send("Do what is asked.");
	await conversation.settled();
	const threeTurns = performance.now() - since;
	await conversation.finish();
	await end(child);
	return { firstRequest: model.firstRequestAt() - since, threeTurns };
}

/** The same by `opencode run`. */
export async function bareRun(model: Stopwatch): Promise<Figures> {
	await using place = await openPlace(model);
	const since = performance.now();
	const args = ["run", "--format", "json", "--title", "bench"];
	const child = spawn(binary, args, {
		cwd: place.workdir,
		env: place.env,
		stdio: ["pipe", "ignore", "ignore"],
	});
	child.stdin!.end("Do what is asked.");
	await once(child, "exit");
	return { firstRequest: model.firstRequestAt() - since, threeTurns: performance.now() - since };
}

async function openPlace(model: Stopwatch) {
	const home = await mkdtemp(join(tmpdir(), "paddock-bench-"));
	for (const file of agentFiles()) {
		await mkdir(dirname(join(home, file.path)), { recursive: true });
		await writeFile(join(home, file.path), file.content);
	}
	const workdir = join(home, "workdir");
	await mkdir(workdir);
	const ours = agentEnvironment(options, { home, gatewayUrl: model.url, key: model.key }, "x");
	// Settings of the runtime are part of what Paddock does; by hand nobody has them.
	const agent = Object.fromEntries(Object.entries(ours).filter(([name]) => !/^BUN_(JSC|GC)_/.test(name)));
	return {
		workdir,
		env: { ...agent, PATH: "/usr/local/bin:/usr/bin:/bin", LANG: "C.UTF-8", TMPDIR: home },
		[Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true }),
	};
}

async function listening(child: ChildProcess): Promise<number> {
	const found = Promise.withResolvers<number>();
	createInterface({ input: child.stdout! }).on("line", (line) => {
		const match = /listening on http:\/\/\S+:(\d+)/.exec(line);
		if (match) found.resolve(Number(match[1]));
	});
	child.once("exit", (code) => found.reject(new Error(`opencode serve ended with ${code}`)));
	return await found.promise;
}

async function end(child: ChildProcess): Promise<void> {
	const exited = once(child, "exit");
	child.kill("SIGKILL");
	await exited;
}
