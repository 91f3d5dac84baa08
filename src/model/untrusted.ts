/** Where a shell begins a word, and where it begins a command. */
const WORD = "(?:^|[\\s;&|(`])";
const COMMAND = "(?:^|[;&|(`]|\\b(?:then|do|else|time|exec|env|timeout\\s+\\S+)\\s)\\s*(?:\\w+=\\S*\\s+)*";
const FLAGS = "(?:-\\w+\\s+)*";

/** These collect tests and run them in their own process: it is the tests that start what the agent wrote. */
const TEST_RUNNER = new RegExp(
	`${WORD}(?:pytest|npm test|node --test|python3?\\s+${FLAGS}-m\\s+(?:pytest|unittest))(?:\\s|$)`,
	"m",
);

/** What a verifier's shell runs out of the workdir is the agent's. */
const RUNS_AGENT_FILE = [
	// An interpreter with a relative path, or with a module, which it looks for in its folder first.
	new RegExp(
		`${WORD}(?:(?:ba|da|z)?sh|node|bun|deno run|python3?|perl|ruby)\\s+${FLAGS}(?:\\./)?[\\w-][\\w./-]*\\.\\w+`,
		"m",
	),
	new RegExp(`${WORD}python3?\\s+${FLAGS}-m\\s+\\w`, "m"),
	new RegExp(`${WORD}\\./[\\w./-]+`, "m"),
	new RegExp(`${COMMAND}(?:\\.|source)\\s+[\\w-]`, "m"),
	TEST_RUNNER,
	// A builder with the workdir's rules; one that is told of another folder has rules of the task's.
	new RegExp(
		`${COMMAND}(?:make|go\\s+(?:test|run)|cargo\\s+(?:test|run)|(?:npm|pnpm|yarn)\\s+(?:run|start|test))(?![^\\n;&|]*(?:\\$|~/|/home/))(?:\\s|$)`,
		"m",
	),
];

export function runsTests(line: string): boolean {
	return TEST_RUNNER.test(line);
}

export function runsAgentFiles(script: string): boolean {
	const code = script.replaceAll(/^\s*#.*$/gm, "");
	return RUNS_AGENT_FILE.some((pattern) => pattern.test(code));
}

/** Programs with plain arguments, one after the other: nothing a shell would do besides. */
const IS_PLAIN = /^[\w \t./=,:@%+'"-]+$/;
const IS_STEP = /^\s*(cd\s+[\w./-]+|exit\s+\d+|true|false)\s*$/;
/** What only a shell can run. */
const NEEDS_SHELL = /^\s*(\w+=|(\.|source|exec|eval|command|builtin|time)\s)/;

/** As the verifier runs a command: where it can be seen to be the agent's programs and nothing else, without trust. */
export function withoutTrust(command: string): string {
	const pieces = command.trim().split(/&&|\|\||;/);
	const isTheirs = pieces.every(
		(piece) => IS_PLAIN.test(piece) && (runsAgentFiles(piece) || IS_STEP.test(piece)),
	);
	// Tests and reward, named as they are, are the task's own business.
	if (
		!isTheirs ||
		!runsAgentFiles(command) ||
		/run-untrusted|(\.\.|\/home\/user)\/(tests|logs)/.test(command)
	)
		return command;
	const isOne = pieces.length === 1 && !NEEDS_SHELL.test(command);
	return isOne
		? `run-untrusted ${command.trim()}`
		: `run-untrusted bash -c '${command.trim().replaceAll("'", "'\\''")}'`;
}
