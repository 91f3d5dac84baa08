import { loadConfig } from "../config.ts";
import { UsageError } from "../errors.ts";
import type { Credential } from "../model/credential.ts";
import type { Paddock } from "../paddock.ts";
import type { Arguments } from "./command.ts";
import { openHere, warnOn } from "./open-here.ts";
import { printLine, type Shell } from "./shell.ts";

export function saySo(shell: Shell, { label, kind, fingerprint, pool, planted }: Credential): void {
	const use = [`--endpoint cred:${label}`, ...(pool === null ? [] : [`--endpoint pool:${pool}`])].join(
		" or ",
	);
	const what = kind === "login" ? "a login, " : "";
	if (planted !== null)
		printLine(
			shell.stderr,
			"It lies in the agent's box while it is used: the agent can read it, and its rollouts are untrainable.",
		);
	printLine(shell.stdout, `Stored as ${label} (${what}fingerprint ${fingerprint}). Use it: ${use}`);
}

export function openStore(shell: Shell): Promise<Paddock> {
	return openHere(loadConfig(shell.env, shell.directory), warnOn(shell));
}

export function onlyLabel(args: Arguments): string {
	const [label, ...rest] = args.operands;
	if (label !== undefined && rest.length === 0) return label;
	throw new UsageError("Which credential? Name one label.", "bad_option");
}
