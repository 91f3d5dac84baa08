import { expect, test } from "vitest";
import type { Task } from "../../src/model/task.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import { verify } from "../../src/verify/verifier.ts";
import { task } from "../fixtures/script.ts";

const options = { signal: new AbortController().signal, onResult: () => {} };

/** What the verifier says in a box where the agent has left `given`. */
async function verdictOn(asked: Task, given = "true") {
	await using backend = await openLocalBackend();
	await using clean = await backend.open({
		spec: asked.box,
		role: "verifier",
		onGateway: (connection) => connection.destroy(),
	});
	await clean.exec(`mkdir -p ~/workdir && cd ~/workdir && ${given}`);
	return await verify(asked, clean, options);
}

const script = (content: string, executable = false) => [{ path: "test.sh", content, executable }];

test.each([
	["a program", { verify: ["no-such-tester --all"] }, "no-such-tester is not installed in the box"],
	["a Python module", { verify: ["python3 -m nosuchpytest"] }, "the Python module nosuchpytest"],
	["a program inside a script", { tests: script("set -e\nno-such-tester\n") }, "no-such-tester"],
	[
		"a program whose absence a script turned into a reward of 0",
		{ tests: script("no-such-tester || echo 0 > ~/logs/verifier/reward.txt\n") },
		"no-such-tester",
	],
	["a test file", { verify: ['"$HOME/tests/absent.sh"'] }, "tests/absent.sh is not among"],
	[
		"the permission to run a test",
		{ verify: ['"$HOME/tests/test.sh"'], tests: script("exit 0\n") },
		"not exec",
	],
	[
		"an interpreter, for a line end of another system",
		{ verify: ['"$HOME/tests/test.sh"'], tests: script("#!/usr/bin/env bash\r\nexit 0\r\n", true) },
		"is not installed in the box",
	],
])("a verifier that lacks %s is the task's failure, not a reward", async (_name, fields, said) => {
	await expect(verdictOn(task(fields))).rejects.toMatchObject({
		boundary: "task",
		code: "verifier_could_not_run",
		message: expect.stringContaining(said),
	});
});

test.each([
	["a program the agent should have written", { verify: ["./answer"] }],
	["a module the agent should have written", { verify: ["python3 -c 'import answer'"] }],
	["a command that simply fails", { verify: ["false"] }],
])("%s is missing: that is the agent's, and earns 0", async (_name, fields) => {
	expect(await verdictOn(task(fields))).toMatchObject({ reward: 0 });
});

const TALK = [
	"bash: line 1: grep: command not found",
	"bash: line 1: expected: command not found",
	"bash: line 1: Fizz: command not found",
	"bash: line 1: words: command not found",
	"bash: line 1: pattern: command not found",
	"/usr/bin/python3: No module named json",
	"/usr/bin/python3.99: No module named nosuchjson",
	"/home/user/tests/else: No such file or directory",
	"/home/user/tests/helper.sh: Permission denied",
	"/usr/bin/env: 'bash\\r': No such file or directory",
];

test("an agent cannot talk its way out of a failed test", async () => {
	const says = `cat > program.sh <<'END'\n${TALK.map((line) => `echo "${line}" >&2`).join("\n")}\nexit 127\nEND`;
	const tests = [
		{ path: "helper.sh", content: "exit 0\n" },
		{
			path: "run.sh",
			content: [
				"# expected words of a comment",
				"expected() { cat <<END",
				"Fizz",
				"END",
				"}",
				"text='",
				"words in a text'",
				"case x in pattern | other) true;; esac",
				'bash "$HOME/tests/helper.sh" && python3 -m json.tool </dev/null',
				"expected > /dev/null; sh program.sh",
			].join("\n"),
		},
	];
	const asked = task({ verify: ["sh program.sh && grep x /dev/null", 'bash "$HOME/tests/run.sh"'], tests });
	expect(await verdictOn(asked, says)).toMatchObject({ reward: 0 });
});
