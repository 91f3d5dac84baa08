import { describe, expect, test } from "vitest";
import { withoutTrust } from "../../src/model/untrusted.ts";
import { example } from "../fixtures/paddock.ts";
import { task } from "../fixtures/script.ts";
import { openStage, scriptAgent } from "../rollout/fixture.ts";

const clocks = { createS: 60, setupS: 60, agentS: 60, verifyS: 60, teardownS: 60 };
const write = (path: string, text: string) => `cat > ${path} <<'END'\n${text}\nEND\n`;

/** Modules that solve nothing, and know where the tests are. */
const MODULES: [what: string, text: string][] = [
	[
		"overwrites the tests",
		`import { writeFileSync } from "node:fs";
writeFileSync(process.env.HOME + "/tests/run.sh", "exit 0\\n");
writeFileSync("run.sh", "exit 0\\n");`,
	],
	[
		"reads the expected answers out of the tests",
		`import { readFileSync } from "node:fs";
const line = readFileSync(process.env.HOME + "/tests/run.sh", "utf8").split("\\n").find((l) => l.trim().startsWith(process.argv[2] + ")"));
console.log(line.slice(line.indexOf("'") + 1, line.lastIndexOf("'")));
process.exit(0);`,
	],
	[
		"swaps the tests' folder for its own",
		`import { renameSync, mkdirSync, writeFileSync } from "node:fs";
renameSync(process.env.HOME + "/tests", process.env.HOME + "/workdir/tests");
mkdirSync(process.env.HOME + "/tests"); writeFileSync(process.env.HOME + "/tests/run.sh", "exit 0");`,
	],
	[
		"leaves a process that overwrites the tests later",
		`import { spawn } from "node:child_process";
spawn("setsid", ["bash", "-c", "for i in $(seq 500); do echo exit 0 > ~/tests/run.sh; sleep 0.01; done"], { detached: true, stdio: "ignore" }).unref();
process.exit(0);`,
	],
];

describe("the example node-module pays nothing to a module that", () => {
	test.each(MODULES)("%s", async (_, text) => {
		await using stage = await openStage(scriptAgent(write("index.mjs", text)));
		const end = await stage.play({ ...(await example("node-module")), clocks });
		expect(end).toMatchObject({ outcome: "completed", reward: 0 });
	});
});

/** Answers that are right, found by reading everything. */
const SEARCHES: [what: string, text: string][] = [
	["is honest about it", "export const binarySearch = (sorted, wanted) => sorted.indexOf(wanted);"],
	[
		"replaces what would count its reads",
		`globalThis.Proxy = function (target) { return target; };
export const binarySearch = (sorted, wanted) => sorted.indexOf(wanted);`,
	],
	[
		"prints what it takes for the answer",
		`export const binarySearch = (sorted, wanted) => {
	if (sorted.length < 1000) return sorted.indexOf(wanted);
	console.log("[65536]");
	process.exit(0);
};`,
	],
];

describe("the example binary-search pays two thirds to a linear search that", () => {
	test.each(SEARCHES)("%s", async (_, text) => {
		await using stage = await openStage(scriptAgent(write("search.mjs", text)));
		const end = await stage.play({ ...(await example("binary-search")), clocks });
		expect(end.outcome).toBe("completed");
		expect(end.reward).toBeCloseTo(2 / 3);
	});
});

test("the example partial-score pays nothing for every answer at once, however much is written around them", async () => {
	const guess =
		'for n in 1 2 3 4 5; do for a in 1 2 3 394.60 Lindqvist north C-301; do echo "$n: $a"; done; done';
	await using stage = await openStage(scriptAgent(`(${guess}; seq 1 40000000) > answers.txt`));
	const end = await stage.play({ ...(await example("partial-score")), clocks });
	expect(end).toMatchObject({ outcome: "completed", reward: 0 });
});

test("the example partial-score pays nothing for lines that only some commands see", async () => {
	const guesses = "1: 1\\0001: 2\\0003: Lindqvist\\0004: north\\0005: C-301\\000";
	await using stage = await openStage(scriptAgent(`printf '${guesses}' > answers.txt`));
	const end = await stage.play({ ...(await example("partial-score")), clocks });
	expect(end).toMatchObject({ outcome: "completed", reward: 0 });
});

test("a program under test cannot write to the memory of the shell that compares its answer", async () => {
	const program =
		"exec 3<>/proc/$PPID/mem && echo WRITABLE >&2; head -c 1 /proc/$PPID/mem; kill -9 $PPID; echo wrong";
	await using stage = await openStage(scriptAgent(write("program.sh", program)));
	const verify = ['answer=$(run-untrusted bash program.sh); [ "$answer" = "$RANDOM" ]'];
	const end = await stage.play(task({ verify, clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0 });
	expect(end.summary?.verify[0]?.stderr).not.toContain("WRITABLE");
});

test("nothing that one verify command started is there for the next", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const leave = "(env -i setsid sleep 987603 > /dev/null 2>&1 < /dev/null &); sleep 987603 & true";
	const end = await stage.play(task({ verify: [leave, "! pgrep -f 'sleep [9]87603'"], clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 1 });
});

test("a program that ends whoever watches over it leaves nobody behind in its own verify command", async () => {
	const program = `setsid bash -c 'exec -a leftbehind sleep 987604' > /dev/null 2>&1 < /dev/null &
sleep 0.2
pid=$PPID
while [ "$pid" -gt 1 ]; do
	next=$(cut -d' ' -f4 "/proc/$pid/stat" 2>/dev/null || echo 1)
	kill -9 "$pid" && echo "ended $pid"
	pid=$next
done`;
	await using stage = await openStage(scriptAgent(write("program.sh", program)));
	const verify = ["run-untrusted bash program.sh; ! pgrep -f '[l]eftbehind'"];
	const end = await stage.play(task({ verify, clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 1 });
});

test.each([
	["bash fizzbuzz.sh 15", "run-untrusted bash fizzbuzz.sh 15"],
	["./rotate.sh 'my log' 3", "run-untrusted ./rotate.sh 'my log' 3"],
	["python3 -m pytest -q", "run-untrusted python3 -m pytest -q"],
	['bash "$HOME/tests/run.sh" stores', null],
	["diff a.txt b.txt", null],
	["test -f half.txt", null],
	["bash a.sh && bash b.sh", "run-untrusted bash -c 'bash a.sh && bash b.sh'"],
	["cd app && ./a 'x y'; ./b", "run-untrusted bash -c 'cd app && ./a '\\''x y'\\''; ./b'"],
	["source ./env.sh", "run-untrusted bash -c 'source ./env.sh'"],
	["exec ./program", "run-untrusted bash -c 'exec ./program'"],
	["MODE=fast ./program", "run-untrusted bash -c 'MODE=fast ./program'"],
	["python3 -m answer 3", "run-untrusted python3 -m answer 3"],
	["python3 -u answer.py", "run-untrusted python3 -u answer.py"],
	["make", "run-untrusted make"],
	["make -s test", "run-untrusted make -s test"],
	["go test ./...", "run-untrusted go test ./..."],
	["cargo test --offline", "run-untrusted cargo test --offline"],
	["npm run build", "run-untrusted npm run build"],
	["make -C /home/user/tests", null],
	["./answer && grep -q 42 out.txt", null],
	["./answer > out.txt", null],
	["python3 ../tests/check.py", null],
	["echo make", null],
])("%s is run as %s", (command, run) => {
	expect(withoutTrust(command)).toBe(run ?? command);
});

test.each(["source ./env.sh", "exec ./program.sh", "MODE=fast ./program.sh && ./program.sh"])(
	"an honest answer to %s passes without trust",
	async (command) => {
		const program = `${write("env.sh", "true")}${write("program.sh", "#!/bin/sh\nexit 0")}chmod +x program.sh`;
		await using stage = await openStage(scriptAgent(program));
		expect(await stage.play(task({ verify: [command], clocks }))).toMatchObject({ reward: 1 });
	},
);

test("a file of the tests that the verifier has open is out of a program's reach", async () => {
	const program = "cat <&3 || cat /proc/self/fd/3 || cat /proc/$PPID/fd/3; true";
	await using stage = await openStage(scriptAgent(write("program.sh", program)));
	const verify = ['exec 3< "$HOME/tests/x"; run-untrusted bash program.sh | grep -q hidden && exit 1; true'];
	const tests = [{ path: "x", content: "hidden" }];
	const end = await stage.play(task({ verify, tests, clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 1 });
});

test("a verify command that is nothing but the agent's program cannot write the reward", async () => {
	const program = 'echo 1 > "$HOME/logs/verifier/reward.txt"; exit 1';
	await using stage = await openStage(scriptAgent(write("program.sh", program)));
	const end = await stage.play(task({ verify: ["bash program.sh", "true # reward.txt"], clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0.5 });
});
