import { isOutage, messageOf, RolloutError, UsageError } from "../errors.ts";
import { VERSION } from "../version.ts";
import { abort } from "./abort.ts";
import { agentCommands } from "./agent.ts";
import { chat } from "./chat/command.ts";
import { type Command, parseArguments } from "./command.ts";
import { completionOf } from "./completion.ts";
import { credentialCommands } from "./credentials.ts";
import { doctor } from "./doctor.ts";
import { e2bBuildTemplate } from "./e2b.ts";
import { exportCommand } from "./export.ts";
import { helpOf, overview } from "./help.ts";
import { hostCommands } from "./hosts.ts";
import { list } from "./list.ts";
import { mcp } from "./mcp.ts";
import { policy } from "./policy.ts";
import { inFlagsHere } from "./run/model-options.ts";
import { run } from "./run/run.ts";
import { ServerTrouble } from "./run/server-trouble.ts";
import { serveCommand } from "./serve.ts";
import { printLine, type Shell } from "./shell.ts";
import { show } from "./show/show.ts";
import { didYouMean } from "./suggest.ts";
import { taskCheck } from "./task-check.ts";
import { printable } from "./terminal/style.ts";
import { view } from "./view.ts";
import { worker } from "./worker.ts";

export const COMMANDS: readonly Command[] = [
	run,
	chat,
	list,
	show,
	abort,
	exportCommand,
	view,
	serveCommand,
	worker,
	mcp,
	taskCheck,
	policy,
	...agentCommands,
	...credentialCommands,
	...hostCommands,
	e2bBuildTemplate,
	doctor,
	completionOf(() => COMMANDS),
];

/** Resolves to the exit code. Everything that goes wrong is said in one sentence on stderr. */
export async function main(argv: readonly string[], shell: Shell): Promise<number> {
	try {
		return await dispatch(argv, shell);
	} catch (error) {
		if (error instanceof UsageError) {
			printLine(shell.stderr, `paddock: ${printable(inFlagsHere(error.message))}`);
			return 2;
		}
		if (error instanceof RolloutError) {
			printLine(shell.stderr, `paddock: ${printable(error.message)} (${error.boundary}, ${error.code})`);
			return 1;
		}
		if (isOutage(error) && !(error instanceof ServerTrouble)) {
			const what = `the database does not answer, or the disk is full: ${messageOf(error)}`;
			printLine(shell.stderr, `paddock: ${printable(what)}`);
			return 1;
		}
		printLine(shell.stderr, `paddock: ${printable(messageOf(error))}`);
		if (error instanceof ServerTrouble) return 1;
		if (error instanceof Error && error.stack) printLine(shell.stderr, printable(error.stack));
		return 1;
	}
}

async function dispatch(argv: readonly string[], shell: Shell): Promise<number> {
	const [first = "help"] = argv;
	if (["help", "--help", "-h"].includes(first)) {
		shell.stdout.write(helpOn(argv.slice(1)));
		return 0;
	}
	if (["version", "--version", "-v"].includes(first)) {
		printLine(shell.stdout, VERSION);
		return 0;
	}
	const found = findCommand(argv);
	if (found === null && ["--help", "-h"].includes(argv[1] ?? "") && isFirstWord(first)) {
		shell.stdout.write(helpOn([first]));
		return 0;
	}
	if (found === null) throw unknownCommand(argv);
	const args = parseArguments(found.command, found.rest);
	if (args.has("help")) {
		shell.stdout.write(helpOf(found.command));
		return 0;
	}
	return found.command.run(args, shell);
}

/** Of one command, of those that begin with the same word, or of all. */
function helpOn(words: readonly string[]): string {
	const command = findCommand(words)?.command;
	if (command !== undefined) return helpOf(command);
	const [first = ""] = words;
	return isFirstWord(first) ? beginningWith(first).map(helpOf).join("\n") : overview(COMMANDS);
}

function isFirstWord(word: string): boolean {
	return beginningWith(word).length > 0;
}

function beginningWith(word: string): readonly Command[] {
	return COMMANDS.filter((command) => command.name.startsWith(`${word} `));
}

/** A command's name is one word or two. */
function findCommand(argv: readonly string[]): { command: Command; rest: readonly string[] } | null {
	for (const command of COMMANDS) {
		const words = command.name.split(" ");
		if (words.every((word, index) => argv[index] === word))
			return { command, rest: argv.slice(words.length) };
	}
	return null;
}

function unknownCommand(argv: readonly string[]): UsageError {
	const names = COMMANDS.map((command) => command.name);
	const [first = "", second = ""] = argv;
	const starts = names.filter((name) => name.startsWith(`${first} `));
	const hint = didYouMean(first, names) || didYouMean(`${first} ${second}`, names);
	const choices = starts.length > 0 ? starts : names;
	return new UsageError(
		`There is no command "${first}${starts.length > 0 ? ` ${second}`.trimEnd() : ""}".${hint} Known: ${choices.join(", ")}.`,
		"unknown_command",
	);
}
