import { fileURLToPath } from "node:url";
import { joinModules } from "./join-modules.ts";

/** Installed as a package it has no types left in it. */
const EXTENSION = import.meta.url.endsWith(".ts") ? "ts" : "js";
const ENTRY = fileURLToPath(new URL(`./untrusted/main.${EXTENSION}`, import.meta.url));
let program: string | undefined;

/** What a verifier's box has on its PATH for what the agent wrote. */
export const RUN_UNTRUSTED = "run-untrusted";

/**
 * One file that can be brought anywhere: a shell script that has the agent's binary, acting as Bun, run the program in it. The runtime
 * starts where nobody can have left settings for it, with a home that is none.
 */
export function runUntrustedTool(agent: string): Buffer {
	program ??= joinModules(ENTRY);
	return Buffer.from(`#!/bin/sh
# Runs a command that must not be trusted, as Paddock's docs/security.md says.
export UNTRUSTED_CWD="$PWD" UNTRUSTED_HOME="$HOME" UNTRUSTED_BUN="$BUN_BE_BUN"
cd / && BUN_BE_BUN=1 HOME=/nowhere exec ${quoted(agent)} -e ${quoted(program)} -- "$@"
`);
}

function quoted(text: string): string {
	return `'${text.replaceAll("'", "'\\''")}'`;
}
