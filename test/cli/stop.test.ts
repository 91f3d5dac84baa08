import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { isNodeNewEnough } from "../../scripts/node24.mjs";
import { onInterrupt } from "../../src/cli/run/interrupt.ts";
import { Paddock, type StartOptions } from "./paddock.ts";

test("losing whoever started it is a request to stop, but never the second one, which would cut it short", () => {
	const asked: number[] = [];
	const starter: NodeJS.EventEmitter = process;
	{
		using _interrupts = onInterrupt(({ exitCode }) => asked.push(exitCode));
		expect(starter.emit("orphaned")).toBe(true);
		expect(starter.emit("orphaned")).toBe(true);
	}
	expect(asked).toEqual([143]);
	expect(starter.emit("orphaned")).toBe(false);
});

const LONG = 60_000;
const SYSTEM_NODE = "/usr/bin/node";

const hasOlderNode = (() => {
	const { stdout } = spawnSync(SYSTEM_NODE, ["--version"], { encoding: "utf8" });
	return stdout ? !isNodeNewEnough(stdout.trim().replace("v", "")) : false;
})();

const STARTERS: [string, StartOptions, NodeJS.Signals][] = [
	["of its own", {}, "SIGTERM"],
	["to npx, whose shell does not pass it on,", { npx: true }, "SIGTERM"],
	...(hasOlderNode
		? ([
				["to the older Node that started it", { node: SYSTEM_NODE }, "SIGTERM"],
				["-9 to the older Node that started it", { node: SYSTEM_NODE }, "SIGKILL"],
			] as [string, StartOptions, NodeJS.Signals][])
		: []),
];

test.for(STARTERS)(
	"a signal %s closes the server in good order",
	{ timeout: LONG },
	async ([, options, signal]) => {
		await using paddock = await Paddock.open();
		const serving = paddock.start(["serve", "--port", "0", "--no-worker"], options);
		await expect.poll(() => serving.stderr, { timeout: LONG / 2 }).toContain("Paddock is at ");
		const [url] = /http:\S+/.exec(serving.stderr)!;
		serving.child.kill(signal);
		// Everybody who holds the pipes has ended by then, the server too.
		const { stderr } = await serving.ended;
		expect(stderr).toContain("Closing …");
		await expect(fetch(url)).rejects.toThrow();
	},
);
