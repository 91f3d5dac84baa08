import { spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { RolloutResult } from "../../src/model/result.ts";
import { requirePart } from "../fixtures/parts.ts";
import { Paddock } from "./paddock.ts";

/** A task whose every file counts: each holds its number, and the verifier adds them all up. */
async function writeTask(folder: string, count: number): Promise<void> {
	for (let index = 0; index < count; index += 100) {
		const place = join(folder, "files", `d${index / 100}`);
		await mkdir(place, { recursive: true });
		const numbers = Array.from({ length: Math.min(100, count - index) }, (_, at) => index + at);
		await Promise.all(numbers.map((number) => writeFile(join(place, `${number}.txt`), `${number}\n`)));
	}
	const sum = "find . -name '*.txt' -path './d*' -exec cat {} + | awk '{ s += $1 } END { print s }'";
	await writeFile(join(folder, "instruction.md"), "Write the sum of all numbers in the folders to sum.\n");
	await writeFile(
		join(folder, "task.yaml"),
		`verify:\n  - test "$(cat sum)" = ${(count * (count - 1)) / 2}\n  - test "$(${sum})" = "$(cat sum)"\n`,
	);
	await mkdir(join(folder, "solution"));
	await writeFile(join(folder, "solution/solve.sh"), `${sum} > sum\n`);
}

test.each([2_000, 20_000])(
	"a task of %i files is run to its reward",
	{
		timeout: 180_000,
	},
	async (count, context) => {
		const bwrap = spawnSync("bwrap", ["--version"]).status === 0;
		requirePart(context as never, "bubblewrap", bwrap, "apt-get install bubblewrap");
		await using paddock = await Paddock.open();
		const folder = join(paddock.home, `of-${count}`);
		await writeTask(folder, count);
		const { code, stdout, stderr } = await paddock.run(["run", folder, "--policy", "oracle", "--json"]);
		expect(code, stderr).toBe(0);
		const result = RolloutResult.parse(JSON.parse(stdout));
		expect(result).toMatchObject({ outcome: "completed", reward: 1, failure: null });
		expect(result.verify_results.map(({ exit_code }) => exit_code)).toEqual([0, 0]);
		console.log(`${count} files: a rollout in ${result.wall_s} s`);
	},
);
