import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { type Command, HELP } from "./command.ts";

const FIRST_TASK = fileURLToPath(new URL("../../examples/tasks/fizzbuzz", import.meta.url));

/** A command that works as it is typed: its task comes along, in a checkout as in the package. */
export const firstCommand = () => `paddock run ${relative(process.cwd(), FIRST_TASK)} --policy oracle`;

/** The front page: every command in one line. */
export function overview(commands: readonly Command[]): string {
	const width = Math.max(...commands.map((command) => command.name.length));
	const lines = commands.map((command) => `  ${command.name.padEnd(width)}  ${command.summary}`);
	return `Paddock runs the OpenCode coding agent on tasks, in sandboxes, against any model.

Usage: paddock <command> [options]

${lines.join("\n")}

Start with:  ${firstCommand()}
More:        paddock <command> --help
`;
}

export function helpOf(command: Command): string {
	const title = ["Usage: paddock", command.name, command.operands].filter((word) => word !== "").join(" ");
	const options = Object.entries({ ...command.options, help: HELP }).map(([name, option]) => {
		const short = option.short === undefined ? "    " : `-${option.short}, `;
		const long = `${short}--${name}${option.value === undefined ? "" : ` ${option.value}`}`;
		return { long, help: option.help };
	});
	const width = Math.max(...options.map((option) => option.long.length));
	const examples = command.examples.map((example) => `  ${example.line}\n      ${example.says}`);
	return [
		`${title} [options]\n\n${sentence(command.summary)}`,
		...(command.details === undefined ? [] : [command.details]),
		`Options:\n${options.map((option) => `  ${option.long.padEnd(width)}  ${option.help}`).join("\n")}`,
		`Examples:\n${examples.join("\n")}`,
	]
		.join("\n\n")
		.concat("\n");
}

function sentence(text: string): string {
	return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}
