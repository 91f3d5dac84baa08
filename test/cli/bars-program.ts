/**
 * Shows live bars on the terminal it is started in and does what it is told on stdin: `start <id>`, `call <id>`,
 * `verify <id>`, `teardown <id>`, `end <id>`, `say <text>`, `close`. Its argument says how often the clocks move, in
 * milliseconds.
 */
import { createInterface } from "node:readline";
import { processShell } from "../../src/cli/shell.ts";
import { openBars } from "../../src/cli/terminal/bars.ts";
import { advance, newRow, type Row } from "../../src/cli/terminal/progress.ts";
import type { EventBody } from "../../src/model/event.ts";

const rows = new Map<string, Row>(["alpha", "beta", "gamma"].map((id) => [id, newRow(id, id)]));
const display = openBars([...rows.values()], processShell(), { tickMs: Number(process.argv[2] ?? 500) });

const CALL: EventBody = {
	type: "call-end",
	call: {
		...{ index: 0, purpose: "main", sessionId: null, finishReason: "stop", complete: true, latencyMs: 1 },
		...{ promptTokens: 1200, completionTokens: 34, error: null },
	},
};
const EVENTS: Record<string, EventBody[]> = {
	start: [
		{ type: "rollout-start", attempt: 1, worker: "w" },
		{ type: "phase-start", phase: "agent" },
	],
	call: [CALL],
	verify: [
		{ type: "phase-start", phase: "verify" },
		{ type: "verify-start", step: 2, of: 3, cmd: "npm test" },
	],
	teardown: [{ type: "phase-start", phase: "collect" }, { type: "teardown-start" }],
	end: [{ type: "rollout-end", outcome: "completed", reward: 1, failure: null, attempt: 1 }],
};

for await (const line of createInterface({ input: process.stdin })) {
	const [verb = "", ...rest] = line.split(" ");
	if (verb === "close") break;
	if (verb === "say") display.say(rest.join(" "));
	const before = rows.get(rest[0] ?? "");
	if (before === undefined) continue;
	let row = before;
	for (const event of EVENTS[verb] ?? [])
		row = advance(row, { rolloutId: row.id, seq: 1, at: Date.now(), ...event });
	rows.set(row.id, row);
	display.update(row, before);
}
display[Symbol.dispose]();
process.stdout.write("closed\n");
