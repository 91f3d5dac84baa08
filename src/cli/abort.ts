import { loadConfig } from "../config.ts";
import { UsageError } from "../errors.ts";
import type { Paddock } from "../paddock.ts";
import type { Arguments, Command } from "./command.ts";
import { openHere, warnOn } from "./open-here.ts";
import { printLine } from "./shell.ts";
import { findRollout } from "./show/show.ts";
import { plural } from "./terminal/figures.ts";

export const abort: Command = {
	name: "abort",
	operands: "[<rollout>…]",
	summary: "stop rollouts that wait or run; what was captured until then is kept",
	details: `Whoever runs them, in this data folder or database, stops them at once; those that wait end without having begun.`,
	options: {
		group: { value: "<id>", help: "all of this group" },
		batch: { value: "<id>", help: "all of this batch" },
		"left-behind": { help: "what a killed program left unfinished, and nobody runs" },
		unfinished: { help: "everything that waits or runs" },
	},
	examples: [
		{ line: "paddock abort last", says: "the newest rollout" },
		{ line: "paddock abort --left-behind", says: "what an interrupted run left behind" },
	],
	async run(args, shell) {
		const ways = ["group", "batch", "left-behind", "unfinished"].filter((name) => args.has(name));
		const given = ways.length + (args.operands.length > 0 ? 1 : 0);
		if (given !== 1)
			throw new UsageError(
				"Which rollouts? Name them, or give one of --group, --batch, --left-behind and --unfinished.",
				"no_rollout",
			);
		await using paddock = await openHere(loadConfig(shell.env, shell.directory), warnOn(shell));
		const aborted = await abortAll(paddock, args);
		for (const id of aborted) printLine(shell.stdout, id);
		printLine(
			shell.stderr,
			aborted.length === 0 ? "Nothing to abort." : `Aborted ${plural(aborted.length, "rollout")}.`,
		);
		return 0;
	},
};

async function abortAll(paddock: Paddock, args: Arguments): Promise<string[]> {
	const [groupId, batchId] = [args.text("group"), args.text("batch")];
	if (groupId !== undefined) return await paddock.abort({ groupId });
	if (batchId !== undefined) return await paddock.abort({ batchId });
	const aborted: string[] = [];
	for await (const id of chosen(paddock, args)) aborted.push(...(await paddock.abort({ id })));
	return aborted;
}

async function* chosen(paddock: Paddock, args: Arguments): AsyncGenerator<string> {
	if (args.has("left-behind")) yield* await paddock.leftBehind();
	else if (args.has("unfinished")) yield* unfinished(paddock);
	else yield* named(paddock, args.operands);
}

async function* named(paddock: Paddock, operands: readonly string[]): AsyncGenerator<string> {
	for (const operand of operands) yield await findRollout(paddock, operand);
}

async function* unfinished(paddock: Paddock): AsyncGenerator<string> {
	for (const status of ["running", "queued"] as const) {
		const { items } = await paddock.list({ status }, { limit: 100_000 });
		for (const { id } of items) yield id;
	}
}
