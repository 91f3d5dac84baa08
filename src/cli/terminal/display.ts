import type { Shell } from "../shell.ts";
import { openBars } from "./bars.ts";
import { openPlainLines } from "./plain-lines.ts";
import type { Row } from "./progress.ts";

/** Shows rollouts as they go. Closing leaves the terminal as it was found. */
export interface Display extends Disposable {
	/** Called with the row before and after something happened to it. */
	update(row: Row, before: Row): void;
	/** A sentence for the person watching. */
	say(text: string): void;
}

/**
 * Live bars on a terminal, plain lines otherwise. Progress always goes to stderr; when results stream to the same
 * terminal (`printsResults`), lines do not get in their way.
 */
export function openDisplay(
	rows: readonly Row[],
	shell: Shell,
	options: { printsResults?: boolean } = {},
): Display {
	const collides = options.printsResults === true && shell.stdout.isTTY;
	const live = shell.stderr.isTTY && shell.env.TERM !== "dumb" && !collides;
	return live ? openBars(rows, shell) : openPlainLines(shell);
}
