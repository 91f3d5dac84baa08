import { UsageError } from "../errors.ts";
import { type Command, HELP, type Option } from "./command.ts";
import { printLine } from "./shell.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

/** Knows the commands that are given to it, itself included. */
export function completionOf(commands: () => readonly Command[]): Command {
	return {
		name: "completion",
		operands: "<bash|zsh|fish>",
		summary: "print a script that completes commands and options in your shell",
		options: {},
		examples: [
			{ line: 'eval "$(paddock completion bash)"', says: "in ~/.bashrc; zsh likewise in ~/.zshrc" },
			{ line: "paddock completion fish > ~/.config/fish/completions/paddock.fish", says: "for fish" },
		],
		async run(args, shell) {
			const [asked, ...rest] = args.operands;
			const known = SHELLS.find((name) => name === asked);
			if (known === undefined || rest.length > 0)
				throw new UsageError(`For which shell? One of ${SHELLS.join(", ")}.`, "bad_option");
			printLine(shell.stdout, known === "fish" ? forFish(commands()) : forBash(commands(), known));
			return 0;
		},
	};
}

function optionsOf(command: Command): [name: string, option: Option][] {
	return Object.entries({ ...command.options, help: HELP });
}

/** An option of one name has the same words wherever it is taken. */
function choicesOf(commands: readonly Command[]): Map<string, readonly string[]> {
	const all = commands.flatMap(optionsOf);
	return new Map(all.flatMap(([name, { choices }]) => (choices ? [[name, choices]] : [])));
}

/** zsh reads bash's completions when it is told to. Where no option or command fits, files are offered. */
function forBash(commands: readonly Command[], shell: "bash" | "zsh"): string {
	const first = [...new Set(commands.map((command) => command.name.split(" ")[0]))];
	const cases = commands.map((command) => {
		const options = optionsOf(command).map(([name]) => `--${name}`);
		return `\t\t"${command.name}"*) words="${options.join(" ")}" ;;`;
	});
	const seconds = commands.flatMap(({ name }) =>
		name.includes(" ") ? [name.split(" ") as [string, string]] : [],
	);
	const families = Map.groupBy(seconds, ([one]) => one);
	const subcommands = [...families].map(
		([one, names]) => `\t\t${one}) words="${names.map(([, two]) => two).join(" ")}" ;;`,
	);
	const choices = [...choicesOf(commands)].map(
		([name, words]) => `\t\t--${name}) words="${words.join(" ")}" ;;`,
	);
	return `${shell === "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : ""}_paddock() {
	local words="" current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}"
	if [ "$COMP_CWORD" -eq 1 ]; then
		words="${first.join(" ")} help version"
	elif [ "$COMP_CWORD" -eq 2 ] && [[ "$current" != -* ]]; then
		case "\${COMP_WORDS[1]}" in
${subcommands.join("\n")}
		esac
	fi
	if [[ "$current" == -* ]]; then
		case "\${COMP_WORDS[*]:1}" in
${cases.join("\n")}
		esac
	fi
	case "$before" in
${choices.join("\n")}
	esac
	COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _paddock paddock`;
}

function forFish(commands: readonly Command[]): string {
	const begun = new Set<string>();
	const lines = commands.flatMap((command) => {
		const [first, second] = command.name.split(" ") as [string, string?];
		const start = `complete -c paddock -n __fish_use_subcommand -a ${first} -d ${quoted(command.summary)}`;
		const isNew = begun.size < begun.add(first).size;
		const inner =
			second &&
			`complete -c paddock -n '__fish_seen_subcommand_from ${first}' -a ${second} -d ${quoted(command.summary)}`;
		const options = optionsOf(command).map(
			([name, { help, choices }]) =>
				`complete -c paddock -n '__fish_seen_subcommand_from ${second ?? first}' -l ${name} -d ${quoted(help)}${choices ? ` -x -a ${quoted(choices.join(" "))}` : ""}`,
		);
		return [...(isNew ? [start] : []), ...(inner ? [inner] : []), ...options];
	});
	return lines.join("\n");
}

function quoted(text: string): string {
	return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
