import type { Command } from "./command.ts";
import { DAEMON_OPTIONS, GRACE_MS, openDaemon } from "./daemon.ts";
import { untilInterrupt } from "./run/interrupt.ts";
import { printLine } from "./shell.ts";

export const serveCommand: Command = {
	name: "serve",
	operands: "",
	summary: "serve the web page, the HTTP API, MCP and OpenEnv, and run what is asked for",
	details: `Bound to loopback without a token; any other --host needs PADDOCK_TOKEN to be set.
Ctrl-C or SIGTERM: takes nothing new, lets what runs end for 30 s, hands the rest back to the queue.`,
	options: {
		host: { value: "<address>", help: "where to listen (default 127.0.0.1)" },
		port: { value: "<number>", help: "default 8000; 0 picks a free one" },
		...DAEMON_OPTIONS,
		"no-worker": { help: "only accept work; other machines run it" },
	},
	examples: [
		{ line: "paddock serve", says: "then open http://127.0.0.1:8000/web" },
		{
			line: "PADDOCK_TOKEN=… PADDOCK_DATABASE_URL=postgres://db/paddock paddock serve --host 0.0.0.0 --no-worker",
			says: "the front of many machines; each of them runs: paddock worker",
		},
	],
	async run(args, shell) {
		await using daemon = await openDaemon(args, shell);
		const { paddock, config, host, port = 8000, log, metrics } = daemon;
		const { openDoors } = await import("../server/doors.ts");
		const { serve } = await import("../server/serve.ts");
		const doors = openDoors(paddock, { log });
		await using serving = await serve(paddock, {
			...{ host, port, log, metrics, onUpgrade: doors.onUpgrade },
			extraRoutes: (app) => doors.mount(app),
		});
		// Their long requests end before the server waits for the last request.
		await using _doors = doors;
		// From before anything is started that would outlive us: what comes too early waits until all is there.
		const interrupted = untilInterrupt();
		void paddock.resumeAgents();
		const working = args.has("no-worker") ? null : await paddock.work({ capacity: config.concurrency });
		printLine(
			shell.stderr,
			`Paddock is at ${serving.url}  (page /web, API /docs, MCP /mcp). Ctrl-C ends it.`,
		);
		await interrupted;
		printLine(shell.stderr, "Closing …");
		await working?.drain(GRACE_MS);
		await working?.[Symbol.asyncDispose]();
		return 0;
	},
};
