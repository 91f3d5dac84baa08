import { describe, expect, test } from "vitest";
import { example } from "../fixtures/paddock.ts";
import { task } from "../fixtures/script.ts";
import { openStage, scriptAgent } from "./fixture.ts";

const clocks = { createS: 60, setupS: 60, agentS: 60, verifyS: 60, teardownS: 60 };
const tests = [{ path: "expected.txt", content: "42\n" }];
const compare = 'diff "$HOME/tests/expected.txt" answer.txt';

/** The verifier would read its own expectation where it looks for the answer. */
const LINKS: [what: string, script: string][] = [
	["relative, to the expected answer", "ln -s ../tests/expected.txt answer.txt"],
	["absolute, to the expected answer", "ln -s /home/user/tests/expected.txt answer.txt"],
	["to the tests' folder, and through it", "ln -s ../tests t; ln -s t/expected.txt answer.txt"],
	["to everything, and through it", "ln -s / r; ln -s r/home/user/tests/expected.txt answer.txt"],
	["into the system, and up from there", "ln -s /usr u; ln -s u/../home/user/tests/expected.txt answer.txt"],
	["up from a folder that is none", "mkdir d; ln -s d/../../tests/expected.txt answer.txt"],
	["to a folder above home", "ln -s /home h; ln -s h/user/tests/expected.txt answer.txt"],
	["to what the verifier has open", "ln -s /dev/stdin answer.txt; ln -s /proc/self/fd/0 other"],
];

test.each(LINKS)("a link %s earns nothing", async (_, script) => {
	await using stage = await openStage(scriptAgent(script));
	const end = await stage.play(task({ verify: [`${compare} < "$HOME/tests/expected.txt"`], tests, clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0, failure: null });
});

test("links within the workdir, into the system, and those that setup made are brought over", async () => {
	const setup = ["mkdir ../data && echo 42 > ../data/given && ln -s ../data data"];
	const script = `mkdir d && echo 42 > d/real && ln -s d/real answer.txt && ln -s ../answer.txt d/back
		ln -s /usr/bin/env runtime && ln -s /dev/null nothing && ln -s /home/user/workdir/d/real absolute`;
	await using stage = await openStage(scriptAgent(script));
	const verify = [compare, "test -x runtime", "test -c nothing", "cat d/back absolute", "cat data/given"];
	const end = await stage.play(task({ setup, verify, tests, clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 1 });
});

describe("an example pays nothing for a link", () => {
	test.each([
		["csv-mean", "ln -s ../tests/expected.txt mean.txt"],
		["partial-score", "ln -sf /home/user/tests/answers.txt answers.txt"],
		["log-parser", "ln -s /dev/fd/63 errors.txt; ln -s /dev/fd/63 slow.txt"],
	])("in place of the answer of %s", async (name, script) => {
		await using stage = await openStage(scriptAgent(script));
		const end = await stage.play({ ...(await example(name)), clocks });
		expect(end).toMatchObject({ outcome: "completed", reward: 0 });
	});
});

const write = (path: string, text: string) => `cat > ${path} <<'END'\n${text}\nEND\n`;

describe("a program that runs without trust", () => {
	test("makes no link that the verifier would follow", async () => {
		const program = "ln -sf ../tests/expected.txt answer.txt; true";
		await using stage = await openStage(scriptAgent(write("program.sh", program)));
		const end = await stage.play(
			task({ verify: [`run-untrusted bash program.sh; ${compare}`], tests, clocks }),
		);
		expect(end).toMatchObject({ outcome: "completed", reward: 0 });
	});

	test("moves no folder, since a link in it that goes up would lead elsewhere then", async () => {
		const links = "mkdir -p deep/out; ln -s ../../tests/expected.txt deep/out/a; ln -s out/a answer.txt";
		const program = "mv deep/out out || perl -e 'rename q(deep/out), q(out)'; true";
		await using stage = await openStage(scriptAgent(`${links}; ${write("program.sh", program)}`));
		const verify = ["test -L deep/out/a && test -L answer.txt", "run-untrusted bash program.sh", compare];
		const end = await stage.play(task({ verify, tests, clocks }));
		expect(end.summary?.verify.map(({ exitCode }) => exitCode === 0)).toEqual([true, true, false]);
	});

	test("hides no such link from the next one's look", async () => {
		const links = "mkdir -p deep/out; ln -s ../../tests/expected.txt deep/out/a; ln -s out/a answer.txt";
		const program = "chmod 700 deep || true; perl -e 'rename q(deep/out), q(out)'; chmod 000 deep; true";
		await using stage = await openStage(scriptAgent(`${links}; ${write("program.sh", program)}`));
		const verify = ["run-untrusted bash program.sh", "run-untrusted bash program.sh", compare];
		const end = await stage.play(task({ verify, tests, clocks }));
		expect(end.summary?.verify.map(({ exitCode }) => exitCode === 0)).toEqual([true, true, false]);
	});

	test("replaces no link by a folder of the same name that leads elsewhere", async () => {
		const links = "mkdir -p deep/out; ln -s deep/out s; ln -s s/../../tests/expected.txt answer.txt";
		const program = "rm s && mkdir s; true";
		await using stage = await openStage(scriptAgent(`${links}; ${write("program.sh", program)}`));
		const end = await stage.play(
			task({ verify: [`run-untrusted bash program.sh; ${compare}`], tests, clocks }),
		);
		expect(end).toMatchObject({ outcome: "completed", reward: 0 });
	});

	test("moves files and folders about where no link goes up", async () => {
		const program =
			"mkdir a b && echo 42 > a/x && perl -e 'rename q(a/x), q(b/x) or die; rename q(b), q(a/b) or die'";
		await using stage = await openStage(scriptAgent(`ln -s b down; ${write("program.sh", program)}`));
		const verify = ["run-untrusted bash program.sh && grep 42 a/b/x"];
		expect(await stage.play(task({ verify, clocks }))).toMatchObject({ outcome: "completed", reward: 1 });
	});

	test("does not find the verify command among the processes", async () => {
		const program = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -ao 'twenty-tw[o]' | head -1";
		await using stage = await openStage(scriptAgent(write("program.sh", program)));
		const verify = ['test "$(run-untrusted bash program.sh)" = twenty-two'];
		const end = await stage.play(task({ verify, clocks }));
		expect(end).toMatchObject({ outcome: "completed", reward: 0 });
	});

	test("sets no limits of any other process, the first one's least of all", async () => {
		const program = `for pid in $(seq 1 40); do prlimit --pid $pid --nofile=40:40 --fsize=0:0 2>/dev/null && echo set $pid
			taskset -p 1 $pid 2>/dev/null | grep new; renice 19 $pid 2>/dev/null; done; true`;
		await using stage = await openStage(scriptAgent(write("program.sh", program)));
		const verify = [
			"run-untrusted bash program.sh | grep -E 'set|pid 1.s|^1 ' && exit 1; true",
			'test "$(ulimit -n)" -gt 40 && echo text > /tmp/file',
		];
		const end = await stage.play(task({ verify, clocks }));
		expect(end.summary?.verify.map(({ stdout }) => stdout)).toEqual(["", ""]);
		expect(end).toMatchObject({ outcome: "completed", reward: 1 });
	});
});

test("an agent that limits the first process of its box gets its verdict", async () => {
	const script = "for pid in $(seq 1 60); do prlimit --pid $pid --nofile=0:0 --nproc=0:0 --cpu=1:1; done";
	await using stage = await openStage(scriptAgent(`echo 42 > answer.txt; (${script}) 2>/dev/null; true`));
	const end = await stage.play(task({ verify: [compare, "false"], tests, clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
});
