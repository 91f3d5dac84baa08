import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Config, loadConfig } from "../config.ts";
import { UsageError } from "../errors.ts";
import type { Command } from "./command.ts";
import { openHere, warnOn } from "./open-here.ts";
import { untilInterrupt } from "./run/interrupt.ts";
import { printLine } from "./shell.ts";

export const view: Command = {
	name: "view",
	operands: "[<folder>]",
	summary: "look at what was run in the browser: read-only, and nothing is run",
	details: `The folder is a PADDOCK_HOME, by default this one's. A server or a run may work on it meanwhile.`,
	options: {
		port: { value: "<number>", help: "default: a free one" },
	},
	examples: [
		{ line: "paddock view", says: "the console on what was run here" },
		{ line: "paddock view ./data-of-a-colleague", says: "on another folder" },
	],
	async run(args, shell) {
		const config = configOf(args.operands, loadConfig(shell.env, shell.directory), shell.directory);
		const port = args.whole("port", { least: 0, most: 65_535 }) ?? 0;
		await using paddock = await openHere(config, warnOn(shell), { adopt: false });
		const { serve } = await import("../server/serve.ts");
		await using serving = await serve(paddock, { host: "127.0.0.1", port, isReadOnly: true });
		printLine(shell.stdout, `${serving.url}/web`);
		printLine(shell.stderr, "Read-only. Ctrl-C ends it.");
		await untilInterrupt();
		return 0;
	},
};

function configOf(operands: readonly string[], config: Config, directory: string): Config {
	const [folder, ...more] = operands;
	if (more.length > 0) throw new UsageError("One folder can be looked at.", "bad_option");
	if (folder === undefined && config.databaseUrl !== null) return config;
	const home = folder === undefined ? config.home : resolve(directory, folder);
	// Opening a store makes one where there is none; whoever only looks makes nothing.
	if (!existsSync(join(home, "paddock.db"))) {
		throw new UsageError(
			`Nothing was run in ${home}: there is no paddock.db. Name the folder that PADDOCK_HOME named.`,
			"nothing_to_view",
		);
	}
	return { ...config, home, databaseUrl: null };
}
