import type { Config } from "../config.ts";
import type { Paddock } from "../paddock.ts";
import { type Console, printLine } from "./console.ts";

/** Everything below is loaded only by commands that need it, so that help and usage errors come at once. */
export async function openHere(config: Config, warn?: (message: string) => void): Promise<Paddock> {
	const { openPaddock } = await import("../paddock.ts");
	return openPaddock(config, warn === undefined ? {} : { warn });
}

/** Warnings as lines on stderr. */
export function warnOn(console: Console): (message: string) => void {
	return (message) => printLine(console.stderr, `paddock: ${message}`);
}
