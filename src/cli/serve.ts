import { loadConfig } from "../config.ts";
import { createLog, secretsOf } from "../log.ts";
import type { Command } from "./command.ts";
import { printLine } from "./console.ts";
import { untilInterrupt } from "./interrupt.ts";
import { openHere, warnOn } from "./open.ts";

const LEVELS = ["silent", "error", "warn", "info", "debug"] as const;
const GRACE_MS = 30_000;

export const serveCommand: Command = {
	name: "serve",
	operands: "",
	summary: "serve the web page, the HTTP API, MCP and OpenEnv, and run what is asked for",
	details: `Bound to loopback without a token; any other --host needs PADDOCK_TOKEN to be set.
Ctrl-C or SIGTERM: takes nothing new, lets what runs end for 30 s, hands the rest back to the queue.`,
	options: {
		host: { value: "<address>", help: "where to listen (default 127.0.0.1)" },
		port: { value: "<number>", help: "default 8000; 0 picks a free one" },
		concurrency: { value: "<number>", help: "rollouts at a time (default: the number of cores)" },
		"no-worker": { help: "only accept work; other machines run it" },
		log: { value: "<level>", help: `${LEVELS.join(", ")} (default warn)` },
	},
	examples: [
		{ line: "paddock serve", says: "then open http://127.0.0.1:8000/web" },
		{
			line: "PADDOCK_TOKEN=… PADDOCK_DATABASE_URL=postgres://db/paddock paddock serve --host 0.0.0.0 --no-worker",
			says: "the front of many machines; each of them runs: paddock worker",
		},
	],
	async run(args, console) {
		const loaded = loadConfig(console.env, console.directory);
		const concurrency = args.whole("concurrency", { least: 1, most: 10_000 }) ?? loaded.concurrency;
		const level = args.choice("log", LEVELS) ?? "warn";
		const host = args.text("host") ?? "127.0.0.1";
		const port = args.whole("port", { least: 0, most: 65_535 }) ?? 8000;
		const config = { ...loaded, concurrency };
		const log = createLog({ level, secrets: secretsOf(config.env) });
		const { openDoors } = await import("../openenv/doors.ts");
		const { openObservers, serve } = await import("../server/serve.ts");
		await using observers = openObservers(config.env, log);
		const { metrics, watch: watchStore } = observers;
		const onReaped = (boxes: number) => metrics.onLeakedBoxes(boxes);
		await using paddock = await openHere(config, warnOn(console), { watchStore, onReaped });
		const doors = openDoors(paddock, { log });
		await using serving = await serve(paddock, {
			...{ host, port, log, metrics, onUpgrade: doors.onUpgrade },
			extraRoutes: (app) => doors.mount(app),
		});
		// Their long requests end before the server waits for the last request.
		await using _doors = doors;
		const working = args.has("no-worker") ? null : await paddock.work({ capacity: concurrency });
		printLine(
			console.stderr,
			`Paddock is at ${serving.url}  (page /web, API /docs, MCP /mcp). Ctrl-C ends it.`,
		);
		await untilInterrupt();
		printLine(console.stderr, "Closing …");
		await working?.drain(GRACE_MS);
		await working?.[Symbol.asyncDispose]();
		return 0;
	},
};
