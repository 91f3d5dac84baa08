import type { CommandResult } from "../model/event.ts";
import { HOME } from "../model/task.ts";
import type { ExecOptions, ExecResult, Sandbox } from "../sandbox/sandbox.ts";

const TAIL_CHARACTERS = 4_000;

/**
 * A command may hold the expected answer, and what runs beside it can read every process's arguments. Environments are closed to it,
 * and what the command starts does not inherit this one.
 */
const COMMAND = "PADDOCK_COMMAND";
const TAKEN_FROM_ENVIRONMENT = `__command=$${COMMAND}; unset ${COMMAND}; eval "$__command"`;

/**
 * Runs one of the task's shell commands in the box; whatever it does is a result. Tasks may say /home/user in every backend, so a
 * box with another home is meant by it.
 */
export async function runCommand(
	box: Sandbox,
	command: string,
	options: ExecOptions,
): Promise<CommandResult> {
	const result = await box.exec(TAKEN_FROM_ENVIRONMENT, {
		...options,
		env: { ...options.env, [COMMAND]: command.replaceAll(HOME, box.home) },
		maxOutputBytes: 64 * 1024,
	});
	return {
		cmd: command,
		exitCode: exitCodeOf(result),
		stdout: result.stdout.slice(-TAIL_CHARACTERS),
		stderr: (result.timedOut ? `${result.stderr}\n[stopped: out of time]` : result.stderr).slice(
			-TAIL_CHARACTERS,
		),
		durationS: Math.round(result.durationMs) / 1000,
	};
}

function exitCodeOf(result: ExecResult): number {
	if (result.timedOut) return -1;
	if (result.exitCode !== null) return result.exitCode;
	return 128 + (SIGNALS[result.signal ?? ""] ?? 0);
}

const SIGNALS: Record<string, number> = {
	SIGHUP: 1,
	SIGINT: 2,
	SIGQUIT: 3,
	SIGABRT: 6,
	SIGKILL: 9,
	SIGSEGV: 11,
	SIGPIPE: 13,
	SIGTERM: 15,
	SIGXFSZ: 25,
};
