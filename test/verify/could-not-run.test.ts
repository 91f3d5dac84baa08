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

const python = (content: string) => [{ path: "check.py", content }];
const script = (content: string, executable = false) => [{ path: "test.sh", content, executable }];

test.each([
	["a program", { verify: ["no-such-tester --all"] }, "no-such-tester is not installed in the box"],
	["a Python module", { verify: ["python3 -m robot"] }, "the Python module robot"],
	["a program inside a script", { tests: script("set -e\nno-such-tester\n") }, "no-such-tester"],
	[
		"a program whose absence a script turned into a reward of 0",
		{ tests: script("no-such-tester || echo 0 > ~/logs/verifier/reward.txt\n") },
		"no-such-tester",
	],
	["a test file", { verify: ['"$HOME/tests/absent.sh"'] }, "tests/absent.sh is not among"],
	["a shell's test file", { verify: ['bash "$HOME/tests/absent.sh"'] }, "tests/absent.sh is not among"],
	["a Python test file", { verify: ["python3 ~/tests/absent.py"] }, "tests/absent.py is not among"],
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
	[
		"a library that a hidden test imports",
		{ verify: ['python3 "$HOME/tests/check.py"'], tests: python("import json, selenium.webdriver\n") },
		"imports the Python module selenium, which is not installed in the box",
	],
	[
		"a library, and a script turned that into a reward of 0",
		{
			tests: [
				...python("from selenium import webdriver\n"),
				...script('python3 "$HOME/tests/check.py" || echo 0 > ~/logs/verifier/reward.txt\n'),
			],
		},
		"the Python module selenium",
	],
	[
		"the program of a test's first line",
		{ verify: ['"$HOME/tests/test.sh"'], tests: script("#!/usr/bin/env no-such-node\n1\n", true) },
		"no-such-node is not installed in the box",
	],
	[
		"the interpreter of a test's first line",
		{ verify: ['"$HOME/tests/test.sh"'], tests: script("#!/opt/no-such-node --flag\n1\n", true) },
		"/opt/no-such-node is not installed in the box",
	],
])("a verifier that lacks %s is the task's failure, not a reward", async (_name, fields, said) => {
	await expect(verdictOn(task(fields))).rejects.toMatchObject({
		boundary: "task",
		code: "verifier_could_not_run",
		message: expect.stringContaining(said),
	});
});

const CHECK = ['python3 "$HOME/tests/check.py"'];

test.each([
	["a program the agent should have written", { verify: ["./answer"] }],
	["a module the agent should have written", { verify: ["python3 -c 'import answer'"] }],
	["a module the agent should have written to be run", { verify: ["python3 -m answer 3"] }],
	["a package the agent should have written to be run", { verify: ["python3 -m answer.cli 3"] }],
	[
		"a program the agent should have written for the PATH",
		{ verify: ['PATH="$PWD/bin:$PATH"; greet 3'], instruction: "Write bin/greet." },
	],
	[
		"a program the agent should have put elsewhere",
		{ verify: ["greet 3"], instruction: "Install greet.", artifacts: ["/home/user/.local/bin"] },
	],
	["a test program that lay in the workdir", { verify: ["python3 -m robot"], setup: ["unzip robot.whl"] }],
	["a module of the agent's that a hidden test imports", { verify: CHECK, tests: python("import answer\n") }],
	[
		"a library that setup brought, and the agent removed",
		{ verify: CHECK, tests: python("import selenium\n"), setup: ["python3 -m venv env # selenium"] },
	],
	[
		"a look-alike of a library that the agent was asked for",
		{ verify: CHECK, tests: python("import selenium\n"), instruction: "Write selenium.py." },
	],
	[
		"an interpreter the agent should have written",
		{ verify: ['"$HOME/tests/test.sh"'], tests: script("#!/home/user/workdir/answer\n", true) },
	],
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
	"/usr/bin/python3: No module named robot",
	"/usr/bin/python3.99: No module named nosuchjson",
	"/home/user/tests/else: No such file or directory",
	"/home/user/tests/helper.sh: Permission denied",
	"/usr/bin/env: 'bash\\r': No such file or directory",
	"/usr/bin/env: 'no-such-node': No such file or directory",
	"bash: line 1: /home/user/tests/helper.sh: /opt/no-such-node: bad interpreter: No such file or directory",
	"bash: line 1: /home/user/tests/helper.sh: cannot execute: required file not found",
	"ModuleNotFoundError: No module named 'selenium'",
	"ModuleNotFoundError: No module named 'json'",
	"ModuleNotFoundError: No module named 'answer'",
	"ModuleNotFoundError: No module named 'nose'",
];

test("an agent cannot talk its way out of a failed test", async () => {
	const says = `cat > program.sh <<'END'\n${TALK.map((line) => `echo "${line}" >&2`).join("\n")}\nexit 127\nEND`;
	const tests = [
		{ path: "helper.sh", content: "#!/bin/sh\nexit 0\n" },
		{ path: "never-run.js", content: "#!/usr/bin/env no-such-node\n" },
		{
			path: "check.py",
			content:
				'"""\nimport selenium\n"""\nimport json\ntry:\n\timport selenium\nexcept ImportError: pass\nimport nose\n',
		},
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
	// One that the workdir has is the agent's own, whatever it is called.
	expect(await verdictOn(asked, `mkdir -p lib/nose && ${says}`)).toMatchObject({ reward: 0 });
});

test.each([
	["as it is", []],
	["as a wheel", [{ path: "wheels/robot-7.0-py3-none-any.whl", content: "" }]],
])(
	"a checker that the tests bring along %s is not missing, whatever a program under test says of it",
	async (_how, wheels) => {
		const module = wheels.length > 0 ? "site/unpacked" : "site/robot";
		const words = "/usr/bin/python3: No module named robot";
		const asked = task({
			verify: [`cp -r "$HOME/tests/${module}" /tmp/robot && PYTHONPATH=/tmp python3 -m robot`],
			tests: [
				...wheels,
				{ path: `${module}/__main__.py`, content: `import sys\nprint("${words}")\nsys.exit(1)\n` },
			],
		});
		expect(await verdictOn(asked)).toMatchObject({ reward: 0 });
	},
);
