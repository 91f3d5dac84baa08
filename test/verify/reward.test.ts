import { describe, expect, test } from "vitest";
import type { CommandResult } from "../../src/model/event.ts";
import { toReward } from "../../src/verify/reward.ts";

const command = (exitCode: number): CommandResult => ({
	cmd: "x",
	exitCode,
	stdout: "",
	stderr: "",
	durationS: 0,
});

describe("the reward", () => {
	test.each<[string, string | null, string | null, number[], number | null]>([
		["a number in reward.json wins", '{"reward": 0.25}', "1", [0], 0.25],
		["a bare number in reward.json counts", "0.5", null, [], 0.5],
		["one number under any name counts", '{"accuracy": 0.75}', null, [1], 0.75],
		["reward.txt comes next", null, " 0.125\n", [0, 0], 0.125],
		["a negative reward is a reward", null, "-1", [], -1],
		["without a file, passed of total", null, null, [0, 1, 0, 7], 0.5],
		["without commands, none", null, null, [], null],
	])("%s", (_claim, json, txt, exitCodes, expected) => {
		expect(toReward({ json, txt }, exitCodes.map(command))).toBe(expected);
	});

	test.each<[string, string | null, string | null]>([
		["NaN", null, "nan"],
		["infinity", null, "inf"],
		["1e999", null, "1e999"],
		["an empty file", null, ""],
		["a hexadecimal number", null, "0x10"],
		["broken JSON", "{", "1"],
		["a string in JSON", '{"reward": "1"}', "1"],
		["several numbers and none called reward", '{"a": 1, "b": 0}', null],
		["null in JSON", "null", null],
	])("%s is a verifier failure, never a reward", (_name, json, txt) => {
		expect(() => toReward({ json, txt }, [command(0)])).toThrow(
			expect.objectContaining({ code: "bad_reward" }),
		);
	});
});
