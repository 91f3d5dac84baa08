import { expect, test } from "vitest";
import { warnOn } from "../../src/cli/open-here.ts";
import { saveResult } from "../../src/cli/run/results-folder.ts";
import { toCallRow } from "../../src/cli/show/parts.ts";
import { didYouMean } from "../../src/cli/suggest.ts";
import { openBars } from "../../src/cli/terminal/bars.ts";
import { showBytes, showCount, showReward, showSeconds } from "../../src/cli/terminal/figures.ts";
import { openPlainLines } from "../../src/cli/terminal/plain-lines.ts";
import { newRow } from "../../src/cli/terminal/progress.ts";
import { cut, pad, paintFor, printable, widthOf } from "../../src/cli/terminal/style.ts";
import { layOut } from "../../src/cli/terminal/table.ts";
import { nearest } from "../../src/model/nearest.ts";
import type { RolloutResult } from "../../src/model/result.ts";
import { completedCall } from "../fixtures/calls.ts";
import { RecordedShell } from "./shell.ts";

test("what a model wrote cannot steer the terminal", () => {
	const hostile = "a\x1b[2Jb\x1b]0;title\x07c\x1b]8;;http://x\x1b\\d\re\x07f\x9b31mg\u202eh\x00\tz\r\nnext";
	const clean = printable(hostile);
	expect(clean).toBe("abcdef31mgh    z\nnext");
	expect(clean).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
});

test("what failed is told on one line that cannot steer the terminal, in bars and in plain lines", () => {
	const failure = {
		boundary: "provider" as const,
		code: "x",
		message: "no\x1b[2J\ndone: reward 1",
		retryable: false,
	};
	const before = newRow("ro_1", "evil\x1b]0;t\x07\ntask");
	const row = { ...before, phase: "done" as const, outcome: "failed" as const, failure };
	for (const terminal of [true, false]) {
		const shell = new RecordedShell({ terminal });
		{
			using display = terminal ? openBars([before], shell) : openPlainLines(shell);
			display.update(row, before);
			display.say("careful\x1b[2J");
		}
		expect(shell.stderr.text).not.toMatch(/\x1b\[2J|\x1b\]|^done: reward 1/m);
		expect(shell.stderr.text).toContain("careful");
	}
});

test("a finish reason from an engine is no line of ours either", () => {
	const row = toCallRow(
		completedCall({ response: { message: null, finishReason: "stop\x1b[2J\nreward 1" } }),
	);
	expect(row[2]).toBe("stop reward 1");
});

test("names from a server elsewhere stay inside the folder they are saved in", async () => {
	const nothing = (async function* () {})();
	const evil = { rollout_id: "../../evil" } as RolloutResult;
	await expect(saveResult("/nonexistent/out", evil, nothing)).rejects.toMatchObject({
		code: "bad_blob_name",
	});
});

test("widths count columns, not code units, and ignore colours", () => {
	expect(widthOf("\x1b[31mred\x1b[0m")).toBe(3);
	expect(widthOf("日本")).toBe(4);
	expect(cut("日本語", 4)).toBe("日…");
	expect(cut("short", 10)).toBe("short");
	expect(pad("7", 3, "left")).toBe("  7");
});

test("colours appear on a terminal only, and never under NO_COLOR", () => {
	const terminal = new RecordedShell({ terminal: true }).stderr;
	expect(paintFor(terminal, {})("red", "x")).toBe("\x1b[31mx\x1b[0m");
	expect(paintFor(terminal, { NO_COLOR: "1" })("red", "x")).toBe("x");
	expect(paintFor(new RecordedShell().stderr, {})("red", "x")).toBe("x");
});

test("numbers read well at every size", () => {
	expect([0.04, 59.94, 61, 3725].map(showSeconds)).toEqual(["0.0 s", "59.9 s", "1:01 min", "1:02 h"]);
	expect([0, 9812, 123_456, 1_234_567].map(showCount)).toEqual(["0", "9,812", "123k", "1.2M"]);
	expect([null, 1, 0.6667].map(showReward)).toEqual(["–", "1.00", "0.67"]);
	expect([12, 2048, 3 * 1024 ** 2, 24 * 1024 ** 3].map(showBytes)).toEqual([
		"12 B",
		"2.0 KiB",
		"3.0 MiB",
		"24.0 GiB",
	]);
});

test("a table lines its columns up", () => {
	const lines = layOut(
		[{ title: "name" }, { title: "n", align: "right" }],
		[
			["a", "10"],
			["long name", "2"],
		],
	);
	expect(lines).toEqual(["name        n", "a          10", "long name   2"]);
});

test("a slip of the finger finds the word that was meant, nonsense finds none", () => {
	const commands = ["run", "list", "show", "export", "serve", "doctor"];
	expect(nearest("lsit", commands)).toBe("list");
	expect(nearest("sevre", commands)).toBe("serve");
	expect(nearest("doc", commands)).toBe("doctor");
	expect(nearest("rnu", commands)).toBe("run");
	expect(nearest("banana", commands)).toBeNull();
	expect(didYouMean("--", commands)).toBe("");
});

test("a warning never shows a key, whatever it quotes", () => {
	const shell = new RecordedShell({ env: { OPENAI_API_KEY: "a-key-of-ours-1234" } });
	warnOn(shell)("the engine said: bad key a-key-of-ours-1234, or Bearer abcdefgh12345678");
	expect(shell.stderr.text).toBe("paddock: the engine said: bad key [hidden], or Bearer [hidden]\n");
});
