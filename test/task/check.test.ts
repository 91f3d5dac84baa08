import { expect, test } from "vitest";
import { Task } from "../../src/model/task.ts";
import { checkTask } from "../../src/task/check.ts";

const GOOD = {
	id: "good",
	instruction: "Do it.",
	verify: ['bash "$HOME/tests/check.sh"'],
	tests: [{ path: "check.sh", content: "grep -q done out.txt\n" }],
	solution: [{ tool: "write", path: "out.txt", content: "done\n" }],
};

const codes = (fields: object) =>
	checkTask(Task.parse({ ...GOOD, ...fields })).map((warning) => warning.code);

test("a good task has no warning", () => {
	expect(codes({})).toEqual([]);
	expect(codes({ verify: [], tests: [{ path: "test.sh", content: "exit 1\n" }] })).toEqual([]);
});

const tested = (content: string) => ({ tests: [{ path: "check.sh", content }] });

test("the agent's programs alone, or without trust, and a repository of the test's own: no warning", () => {
	expect(codes({ verify: ["make && ./answer"] })).toEqual([]);
	expect(codes(tested("run-untrusted ./answer | grep 42\n"))).toEqual([]);
	expect(codes(tested('make -C "$HOME/tests"\ngit --git-dir="$own" log\n# git log\n'))).toEqual([]);
});

const edit = { tool: "edit", path: "a.txt", old: "x", new: "y" };

test.each([
	["nothing verifies it", { verify: [], tests: [] }, "no_verify"],
	["its tests are never run", { verify: [] }, "no_verify"],
	["a verify command cannot fail", { verify: ["true"] }, "verify_always_passes"],
	[
		"verify runs a file the agent holds",
		{ verify: ["bash check.sh"], files: [{ path: "check.sh", content: "x" }] },
		"verify_runs_given_file",
	],
	[
		"verify runs a given program directly",
		{ verify: ["./run"], files: [{ path: "run", content: "x", executable: true }] },
		"verify_runs_given_file",
	],
	[
		"a hidden test lies open",
		{ files: [{ path: "copy.sh", content: "grep -q done out.txt\n" }] },
		"tests_readable",
	],
	[
		"tests are staged for the agent",
		{ files: [{ path: "/home/user/tests/a", content: "x" }] },
		"tests_readable",
	],
	["setup reads the tests", { setup: ['cat "$HOME/tests/check.sh"'] }, "setup_uses_tests"],
	["there is no solution", { solution: [] }, "no_solution"],
	["an edit has no file", { solution: [edit] }, "edit_does_not_fit"],
	[
		"an edit is ambiguous",
		{ solution: [edit], files: [{ path: "a.txt", content: "x x" }] },
		"edit_does_not_fit",
	],
	[
		"the solution leaves home",
		{ solution: [{ tool: "write", path: "/etc/x", content: "" }] },
		"solution_outside_home",
	],
	["verify runs the agent's program beside its own", { verify: ["./answer | grep 42"] }, "runs_agent_code"],
	["verify redirects a builder", { verify: ["make > log; grep 42 log"] }, "runs_agent_code"],
	["a test runs a module of the agent's", tested("python3 -m answer | grep 42\n"), "runs_agent_code"],
	["a test asks the agent's repository", tested('test "$(git log -1)" = x\n'), "asks_agents_repository"],
	["the internet is open", { box: { network: "internet" } }, "open_network"],
	["the solution exceeds the budget", { budget: { maxCalls: 1 } }, "budget_too_small"],
])("%s: a warning", (_what, fields, code) => {
	expect(codes(fields)).toEqual([code]);
});

test("an edit of what an earlier step wrote, or of what setup may have made, is trusted", () => {
	const written = { tool: "write", path: "a.txt", content: "x" };
	expect(codes({ solution: [written, edit] })).toEqual([]);
	expect(codes({ solution: [edit], setup: ["echo x > a.txt"] })).toEqual([]);
});

test.each([
	["a test that is not there", { verify: ['bash "$HOME/tests/absent.sh"'] }, "test_file_missing"],
	[
		"a test below /home/user that is not there",
		{ verify: ["sh /home/user/tests/a/b.sh"] },
		"test_file_missing",
	],
	["a test that may not be run", { verify: ['"$HOME/tests/check.sh" --all'] }, "script_not_executable"],
	[
		"a test that may not be run, after a cd",
		{ verify: ["cd / && ~/tests/check.sh"] },
		"script_not_executable",
	],
	[
		"a given script that may not be run",
		{ setup: ["./make"], files: [{ path: "make", content: "#!/bin/sh\n" }] },
		"script_not_executable",
	],
	[
		"line ends of another system",
		{ tests: [{ path: "check.sh", content: "#!/bin/sh\r\nexit 0\r\n" }] },
		"crlf_script",
	],
])("%s: a problem", (_what, fields, code) => {
	const found = checkTask(Task.parse({ ...GOOD, ...fields }));
	expect(found).toEqual([{ code, isProblem: true, message: expect.any(String) }]);
});

test.each([
	["a folder of tests", { verify: ['bash "$HOME/tests/check.sh" "$HOME/tests"'] }],
	["names that only the shell knows", { verify: ['for t in "$HOME"/tests/*.sh; do bash "$t"; done'] }],
	["a wildcard", { verify: ["bash ~/tests/check.sh ~/tests/data*.txt"] }],
	[
		"an executable test",
		{
			verify: ['"$HOME/tests/check.sh"'],
			tests: [{ path: "check.sh", content: "grep -q done out.txt\n", executable: true }],
		},
	],
	["data with other line ends", { files: [{ path: "table.csv", content: "a,b\r\n" }] }],
])("%s: no problem", (_what, fields) => {
	expect(checkTask(Task.parse({ ...GOOD, ...fields }))).toEqual([]);
});
