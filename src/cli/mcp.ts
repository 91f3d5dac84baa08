import { loadConfig } from "../config.ts";
import type { Command } from "./command.ts";
import { openHere, warnOn } from "./open-here.ts";
import { onInterrupt } from "./run/interrupt.ts";

export const mcp: Command = {
	name: "mcp",
	operands: "",
	summary: "speak MCP on stdin and stdout, for clients that start their servers themselves",
	options: { concurrency: { value: "<number>", help: "rollouts at a time (default: the number of cores)" } },
	examples: [
		{
			line: `{"mcpServers": {"paddock": {"command": "npx", "args": ["-y", "paddock-rollouts", "mcp"]}}}`,
			says: "a client's configuration",
		},
	],
	async run(args, shell) {
		const config = loadConfig(shell.env, shell.directory);
		const concurrency = args.whole("concurrency", { least: 1, most: 10_000 }) ?? config.concurrency;
		await using paddock = await openHere({ ...config, concurrency }, warnOn(shell));
		await using _work = await paddock.work({ capacity: concurrency });
		const stop = new AbortController();
		using _interrupts = onInterrupt(() => stop.abort());
		const { runStdio } = await import("../mcp/stdio.ts");
		await runStdio(paddock, { signal: stop.signal });
		return 0;
	},
};
