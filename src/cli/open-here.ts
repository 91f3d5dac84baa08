import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Config } from "../config.ts";
import { redact, secretsOf } from "../log.ts";
import type { Paddock, PaddockOptions } from "../paddock.ts";
import { printLine, type Shell } from "./shell.ts";
import { printable } from "./terminal/style.ts";

/** Once in so long is enough, however many boxes have the same thing to say. */
const SAID_FOR_MS = 600_000;

/** Everything below is loaded only by commands that need it, so that help and usage errors come at once. */
export async function openHere(
	config: Config,
	warn?: (message: string) => void,
	options: Omit<PaddockOptions, "warn"> = {},
): Promise<Paddock> {
	await forbidCoreDumps();
	const { openPaddock } = await import("../paddock.ts");
	if (warn === undefined) return openPaddock(config, options);
	const saidAt = new Map<string, number>();
	return openPaddock(config, {
		...options,
		warn(message) {
			const before = saidAt.get(message);
			if (before !== undefined && performance.now() - before < SAID_FOR_MS) return;
			saidAt.set(message, performance.now());
			warn(message);
		},
	});
}

/**
 * Keys and tokens are in this process, and in those that it starts: no crash may write them down. A limit of 0 would not hold where cores
 * are piped to a program; one byte is too little for any.
 */
async function forbidCoreDumps(): Promise<void> {
	await promisify(execFile)("/usr/bin/prlimit", ["--core=1", "--pid", `${process.pid}`]).catch(() => {});
}

/** Warnings as lines on stderr; what passes by the log passes through the same sieve. */
export function warnOn(shell: Shell): (message: string) => void {
	const secrets = secretsOf(shell.env).filter((secret) => secret.length >= 8);
	return (message) => printLine(shell.stderr, `paddock: ${printable(String(redact(message, secrets)))}`);
}
