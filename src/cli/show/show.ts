import { loadConfig } from "../../config.ts";
import { UsageError } from "../../errors.ts";
import type { Paddock } from "../../paddock.ts";
import type { Command } from "../command.ts";
import { openHere, warnOn } from "../open-here.ts";
import { printLine } from "../shell.ts";
import { oneLine, paintFor } from "../terminal/style.ts";
import { callsPart, filesPart, headPart, type Part, resultsPart, toCallRow } from "./parts.ts";
import { readSoFar } from "./so-far.ts";
import { transcriptPart } from "./transcript.ts";

export const show: Command = {
	name: "show",
	operands: "<rollout>",
	summary: "show one rollout: transcript, setup, verification, calls, reward",
	options: {
		full: { help: "do not shorten long texts" },
		json: { help: "the result as one JSON object, tokens included" },
	},
	examples: [
		{ line: "paddock show last", says: "the newest rollout" },
		{
			line: "paddock show <rollout> --json | jq .proxy_turns[0].completion_token_ids",
			says: "the exact tokens",
		},
	],
	async run(args, shell) {
		const [asked, ...rest] = args.operands;
		if (asked === undefined || rest.length > 0) {
			throw new UsageError(`Which rollout? One id (see "paddock list"), or "last".`, "no_rollout");
		}
		await using paddock = await openHere(loadConfig(shell.env, shell.directory), warnOn(shell));
		const id = await findRollout(paddock, asked);
		if (args.has("json")) {
			printLine(shell.stdout, JSON.stringify(await paddock.result(id)));
			return 0;
		}
		const paint = paintFor(shell.stdout, shell.env);
		for (const part of await readParts(paddock, id, args.has("full"))) {
			if (part.title !== null) printLine(shell.stdout, `\n${paint("bold", part.title)}`);
			for (const line of part.lines) printLine(shell.stdout, line);
		}
		return 0;
	},
};

/** `last` is the newest; a unique beginning of an id will do. */
export async function findRollout(paddock: Paddock, asked: string): Promise<string> {
	if (asked !== "last" && (await paddock.row(asked)) !== null) return asked;
	const matching: string[] = [];
	for await (const id of newestFirst(paddock)) {
		if (asked === "last") return id;
		if (id.startsWith(asked)) matching.push(id);
	}
	if (matching.length === 1) return matching[0]!;
	throw new UsageError(
		matching.length > 1
			? `"${asked}" could be ${matching.length} rollouts; give more of the id.`
			: `There is no rollout "${asked}"; "paddock list" shows those there are.`,
		"unknown_rollout",
	);
}

async function* newestFirst(paddock: Paddock): AsyncGenerator<string> {
	for (let cursor: string | undefined; ; ) {
		const { items, next } = await paddock.list({}, { limit: 1000, cursor });
		for (const { id } of items) yield id;
		if (next === null) return;
		cursor = next;
	}
}

async function readParts(paddock: Paddock, id: string, full: boolean): Promise<Part[]> {
	const rollout = await paddock.rollout(id);
	const certificate = await paddock.certificate(id);
	if (rollout === null || certificate === null) {
		throw new UsageError(`There is no rollout "${id}".`, "unknown_rollout");
	}
	const transcript = await paddock.messages(id);
	const calls: string[][] = [];
	for await (const call of paddock.calls(id)) calls.push(toCallRow(call));
	const done = rollout.summary ?? (await readSoFar(paddock, id));
	const now = "now" in done && done.now !== null ? [`  ${oneLine(done.now)}`] : [];
	return [
		headPart(rollout, certificate),
		{ title: "Running now", lines: now },
		resultsPart("Setup", done.setup),
		transcriptPart(transcript?.messages ?? [], transcript?.note ?? null, { full }),
		resultsPart("Verification, in a clean box", done.verify),
		callsPart(calls),
		filesPart(rollout),
	].filter((part) => part.lines.length > 0);
}
