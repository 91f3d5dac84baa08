import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import { openBars } from "../../src/cli/terminal/bars.ts";
import { openDisplay } from "../../src/cli/terminal/display.ts";
import { advance, newRow } from "../../src/cli/terminal/progress.ts";
import { requirePart } from "../fixtures/parts.ts";
import { RecordedShell } from "./shell.ts";
import { hasTmux, Terminal } from "./terminal.ts";

const program = fileURLToPath(new URL("bars-program.ts", import.meta.url));
const screen = (terminal: Terminal) => expect.poll(() => terminal.lines(), { timeout: 10_000, interval: 50 });

test("bars show what runs, a total, and let finished rollouts scroll away; the cursor comes back", async (context) => {
	requirePart(context, "tmux", hasTmux(), "apt-get install tmux");
	using terminal = new Terminal(`NO_COLOR=1 ${process.execPath} ${program}`, { columns: 100, rows: 20 });

	await screen(terminal).toEqual([expect.stringMatching(/^ {2}░{20} {2}0\/3 done · 0 running · 3 waiting/)]);
	expect(terminal.isCursorShown).toBe(false);

	terminal.type("start alpha");
	terminal.type("call alpha");
	terminal.type("start beta");
	await screen(terminal).toEqual([
		expect.stringMatching(/^ {2}alpha {2}▰▰▰▱▱ {2}agent .* s +1 call +1,200 \+ 34 tokens$/),
		expect.stringMatching(/^ {2}beta {3}▰▰▰▱▱ {2}agent .* s +0 calls +0 \+ 0 tokens$/),
		expect.stringMatching(/0\/3 done · 2 running · 1 waiting · 1 call · 1,200 \+ 34 tokens/),
	]);

	terminal.type("verify alpha");
	terminal.type("teardown beta");
	await screen(terminal).toEqual([
		expect.stringMatching(/^ {2}alpha {2}▰▰▰▰▱ {2}verify .* s {2}2\/3: npm test$/),
		expect.stringMatching(/^ {2}beta {3}▰▰▰▰▰ {2}collect .* s {2}closing its boxes$/),
		expect.stringMatching(/0\/3 done · 2 running/),
	]);

	terminal.type("end alpha");
	terminal.type("say something to know");
	await screen(terminal).toEqual([
		expect.stringMatching(/^✓ alpha {2}reward 1\.00 +completed +1 call/),
		"something to know",
		expect.stringMatching(/^ {2}beta/),
		expect.stringMatching(/^ {2}█{6}░{14} {2}1\/3 done/),
	]);

	terminal.type("close");
	await screen(terminal).toEqual([expect.stringMatching(/^✓ alpha/), "something to know", "closed"]);
	expect(terminal.isCursorShown).toBe(true);
});

test("a terminal that gets narrower and wider leaves no torn lines", async (context) => {
	requirePart(context, "tmux", hasTmux(), "apt-get install tmux");
	// Still clocks: tmux tells the program of its new size a moment after it has reflowed the screen.
	using terminal = new Terminal(`NO_COLOR=1 ${process.execPath} ${program} 3600000`, {
		columns: 100,
		// What a narrow screen pushes out at its top is out of reach for any program.
		rows: 40,
	});
	const before = Array.from({ length: 12 }, (_, index) => `before ${index}`);
	for (const line of before) terminal.type(`say ${line}`);
	for (const id of ["alpha", "beta", "gamma"]) terminal.type(`start ${id}`);
	await screen(terminal).toHaveLength(before.length + 4);

	for (const columns of [40, 120, 30, 90]) {
		terminal.resize(columns, 40);
		// Drawn anew when lines are cut short just where there is no room: a size that changes meanwhile is the next case's.
		await expect.poll(() => terminal.lines().some((line) => line.endsWith("…"))).toBe(columns < 80);
		await screen(terminal).toEqual([
			...before,
			expect.stringMatching(/^ {2}alpha/),
			expect.stringMatching(/^ {2}beta/),
			expect.stringMatching(/^ {2}gamma/),
			expect.stringMatching(/^ {2}░+/),
		]);
		expect(Math.max(...terminal.lines().map((line) => line.length))).toBeLessThan(columns);
	}
});

test("however many events come, the screen is drawn at most ten times a second", () => {
	vi.useFakeTimers();
	try {
		const shell = new RecordedShell({ terminal: true });
		let row = newRow("a", "a");
		{
			using display = openBars([row], shell);
			const before = shell.stderr.writes;
			for (let step = 0; step < 1000; step += 1) {
				const next = advance(row, {
					rolloutId: "a",
					seq: 1,
					at: 0,
					type: "rollout-start",
					attempt: 1,
					worker: "w",
				});
				display.update(next, row);
				row = next;
				vi.advanceTimersByTime(1);
			}
			expect(shell.stderr.writes - before).toBeLessThanOrEqual(10);
			expect(shell.stderr.writes - before).toBeGreaterThan(5);
		}
		expect(shell.stderr.resizeListeners).toBe(0);
		expect(vi.getTimerCount()).toBe(0);
	} finally {
		vi.useRealTimers();
	}
});

test("without a terminal there are plain lines: started, tried again, ended", () => {
	const shell = new RecordedShell();
	using display = openDisplay([], shell);
	let row = newRow("a", "fizzbuzz");
	const events = [
		{ type: "rollout-start", attempt: 1, worker: "w" },
		{ type: "phase-start", phase: "agent" },
		{ type: "rollout-start", attempt: 2, worker: "w" },
		{ type: "rollout-end", outcome: "completed", reward: 0, failure: null, attempt: 2 },
	] as const;
	events.forEach((event, index) => {
		const next = advance(row, { rolloutId: "a", seq: index + 1, at: 1000 * index, ...event });
		display.update(next, row);
		row = next;
	});
	expect(shell.stderr.text.split("\n")).toEqual([
		"fizzbuzz: started",
		"fizzbuzz: attempt 2 started",
		"fizzbuzz: completed, reward 0.00, 0 calls, 1.0 s",
		"",
	]);
	expect(shell.stdout.text).toBe("");
});
