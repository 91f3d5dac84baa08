/** What a verifier's shell runs out of the workdir is the agent's: an interpreter with a relative path, `./program`, a program that runs tests. */
const RUNS_AGENT_FILE =
	/(^|[\s;&|(`])((ba|da|z)?sh|node|bun|deno run|python3?|perl|ruby)\s+(?!-)(\.\/)?[\w-][\w./-]*\.\w+|(^|[\s;&|(`])\.\/[\w./-]+|(^|[\s;&|(])(pytest|npm test|node --test|python3? -m (pytest|unittest))(\s|$)/m;

/** These collect tests and run them in their own process: it is the tests that start what the agent wrote. */
const TEST_RUNNER = /(^|[\s;&|(])(pytest|npm test|node --test|python3? -m (pytest|unittest))(\s|$)/;

export function runsTests(line: string): boolean {
	return TEST_RUNNER.test(line);
}

/** One program with plain arguments: nothing a shell would do besides. */
const IS_PLAIN = /^[\w\s./=,:@%+'"-]+$/;

export function runsAgentFiles(script: string): boolean {
	return RUNS_AGENT_FILE.test(script.replaceAll(/^\s*#.*$/gm, ""));
}

/** As the verifier runs a command: where it can be seen to be the agent's program and nothing else, without trust. */
export function withoutTrust(command: string): string {
	const isTheirs =
		IS_PLAIN.test(command) && runsAgentFiles(command) && !/\n|^\s*\w+=|run-untrusted/.test(command);
	return isTheirs ? `run-untrusted ${command.trim()}` : command;
}
