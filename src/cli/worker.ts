import { loadConfig } from "../config.ts";
import type { Command } from "./command.ts";
import { printLine } from "./console.ts";
import { plural } from "./figures.ts";
import { untilInterrupt } from "./interrupt.ts";
import { openHere, warnOn } from "./open.ts";

const GRACE_MS = 30_000;

export const worker: Command = {
	name: "worker",
	operands: "",
	summary: "take queued rollouts and run them, until told to stop",
	details: `Several machines share the work when PADDOCK_DATABASE_URL names one PostgreSQL for all of them.
Ctrl-C or SIGTERM: takes nothing new, lets what runs end for 30 s, hands the rest back to the queue.`,
	options: { concurrency: { value: "<number>", help: "rollouts at a time (default: the number of cores)" } },
	examples: [
		{
			line: "PADDOCK_DATABASE_URL=postgres://db/paddock paddock worker --concurrency 8",
			says: "one of many workers",
		},
	],
	async run(args, console) {
		const config = loadConfig(console.env, console.directory);
		const concurrency = args.whole("concurrency", { least: 1, most: 10_000 }) ?? config.concurrency;
		await using paddock = await openHere({ ...config, concurrency }, warnOn(console));
		await using work = await paddock.work({ capacity: concurrency });
		printLine(
			console.stderr,
			`Working on up to ${plural(concurrency, "rollout")} at a time. Ctrl-C ends it.`,
		);
		await untilInterrupt();
		printLine(console.stderr, `Finishing ${plural(work.running, "rollout")} …`);
		await work.drain(GRACE_MS);
		return 0;
	},
};
