import type { Command } from "./command.ts";
import { DAEMON_OPTIONS, GRACE_MS, openDaemon } from "./daemon.ts";
import { untilInterrupt } from "./run/interrupt.ts";
import { printLine } from "./shell.ts";
import { plural } from "./terminal/figures.ts";

export const worker: Command = {
	name: "worker",
	operands: "",
	summary: "take queued rollouts and run them, until told to stop",
	details: `Several machines share the work when PADDOCK_DATABASE_URL names one PostgreSQL for all of them.
Each needs the secret.key of the first one in its own PADDOCK_HOME.
Ctrl-C or SIGTERM: takes nothing new, lets what runs end for 30 s, hands the rest back to the queue.`,
	options: {
		...DAEMON_OPTIONS,
		port: { value: "<number>", help: "serve /metrics and /api/v1/health there (default: nowhere)" },
		host: { value: "<address>", help: "where to listen (default 127.0.0.1; others need PADDOCK_TOKEN)" },
	},
	examples: [
		{
			line: "PADDOCK_DATABASE_URL=postgres://db/paddock paddock worker --concurrency 8",
			says: "one of many workers",
		},
		{ line: "paddock worker --port 9100", says: "its metrics at http://127.0.0.1:9100/metrics" },
	],
	async run(args, shell) {
		await using daemon = await openDaemon(args, shell);
		const { paddock, config, host, port, log, metrics } = daemon;
		const { createWorkerApp, serve } = await import("../server/serve.ts");
		await using serving =
			port === undefined ? null : await serve(paddock, { host, port, log, metrics, create: createWorkerApp });
		await using work = await paddock.work({ capacity: config.concurrency });
		const shown = serving === null ? "" : ` Metrics at ${serving.url}/metrics.`;
		printLine(
			shell.stderr,
			`Working on up to ${plural(config.concurrency, "rollout")} at a time.${shown} Ctrl-C ends it.`,
		);
		await untilInterrupt();
		printLine(shell.stderr, `Finishing ${plural(work.running, "rollout")} …`);
		await work.drain(GRACE_MS);
		return 0;
	},
};
