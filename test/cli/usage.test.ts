import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { COMMANDS, main } from "../../src/cli/cli.ts";
import { parseArguments } from "../../src/cli/command.ts";
import { Paddock } from "./paddock.ts";
import { RecordedShell } from "./shell.ts";

const FIZZBUZZ = "examples/tasks/fizzbuzz";

async function ask(...argv: string[]) {
	await using paddock = await Paddock.open();
	const env = { PADDOCK_HOME: join(paddock.home, "data"), DOCKER_HOST: "unix:///no/engine.sock" };
	const shell = new RecordedShell({ env });
	// A chat wants a terminal before it looks at anything else.
	shell.stdout.isTTY = argv[0] === "chat";
	const code = await main(argv, shell);
	return {
		code,
		out: shell.stdout.text,
		err: shell.stderr.text,
		created: existsSync(join(paddock.home, "data")),
	};
}

const BAD: [string, string[], string][] = [
	["an unknown command", ["rnu"], 'There is no command "rnu". Did you mean "run"?'],
	["half a command", ["task"], 'There is no command "task". Did you mean "task check"?'],
	[
		"an unknown option",
		["run", FIZZBUZZ, "--polcy", "oracle"],
		'no option --polcy. Did you mean "--policy"?',
	],
	["no task", ["run", "--policy", "oracle"], "Which task?"],
	["an unknown task", ["run", "nowhere", "--policy", "oracle"], "There is no task at nowhere"],
	[
		"an unknown policy",
		["run", FIZZBUZZ, "--policy", "orcale"],
		'There is no policy "orcale". Did you mean "oracle"?',
	],
	[
		"a folder that is nearly called so",
		["run", "examples/tasks/fizbuzz", "--policy", "oracle"],
		`There is no task at examples/tasks/fizbuzz: nothing of that name exists. Did you mean ${FIZZBUZZ}?`,
	],
	["no model", ["run", FIZZBUZZ], "Which model? Give --policy oracle"],
	[
		"a policy and a base URL",
		["run", FIZZBUZZ, "--policy", "oracle", "--base-url", "http://127.0.0.1:1/v1"],
		"--policy and --base-url contradict each other",
	],
	[
		"a base URL without a model",
		["run", FIZZBUZZ, "--base-url", "http://127.0.0.1:1/v1"],
		"--base-url needs --model",
	],
	[
		"a base URL that is none",
		["run", FIZZBUZZ, "--base-url", "localhost", "--model", "m"],
		"--base-url wants an http(s) address",
	],
	[
		"a temperature that is none",
		["run", FIZZBUZZ, "--policy", "oracle", "--temperature", "warm"],
		"--temperature wants a number from 0 to 10",
	],
	[
		"a logprobs mode that no engine has",
		["run", FIZZBUZZ, "--endpoint", "vllm", "--logprobs-mode", "cooked"],
		"--logprobs-mode",
	],
	[
		"a key that is not there",
		["run", FIZZBUZZ, "--endpoint", "openai", "--api-key-env", "NO_SUCH"],
		"NO_SUCH is not set",
	],
	["a replay of nothing", ["run", FIZZBUZZ, "--policy", "replay"], "--policy replay needs --trace"],
	[
		"an unknown sandbox",
		["run", FIZZBUZZ, "--policy", "oracle", "--sandbox", "dokcer"],
		'Did you mean "docker"?',
	],
	[
		"docker without an engine",
		["run", FIZZBUZZ, "--policy", "oracle", "--sandbox", "docker"],
		'The sandbox "docker" is not available here: no container engine answers at /no/engine.sock',
	],
	[
		"E2B without a key",
		["run", FIZZBUZZ, "--policy", "oracle", "--sandbox", "e2b"],
		'The sandbox "e2b" is not available here: E2B_API_KEY is not set',
	],
	[
		"SSH without a host",
		["run", FIZZBUZZ, "--policy", "oracle", "--sandbox", "ssh"],
		'The sandbox "ssh" is not available here: PADDOCK_SSH_HOST is not set',
	],
	[
		"asking where nobody could answer",
		["run", FIZZBUZZ, "--policy", "oracle", "--permission", "ask"],
		"--permission ask needs --server",
	],
	[
		"no rollouts at all",
		["run", FIZZBUZZ, "--policy", "oracle", "-n", "0"],
		"--n wants a whole number from 1",
	],
	[
		"a file for --out",
		["run", FIZZBUZZ, "--policy", "oracle", "--out", "package.json"],
		"is a file, not a folder",
	],
	[
		"a server that is not there",
		["run", FIZZBUZZ, "--policy", "oracle", "--server", "http://127.0.0.1:9"],
		"No Paddock server answers",
	],
	[
		"a model that is not there",
		["run", FIZZBUZZ, "--base-url", "http://127.0.0.1:9/v1", "--model", "any"],
		"No model answers at http://127.0.0.1:9/v1 (ECONNREFUSED)",
	],
	[
		"an endpoint without its address, in words that can be typed",
		["run", FIZZBUZZ, "--endpoint", "vllm"],
		'endpoint "vllm" has no address: pass --base-url, or set VLLM_URL',
	],
	[
		"a chat with an endpoint without its address",
		["chat", "--endpoint", "vllm"],
		'endpoint "vllm" has no address: pass --base-url, or set VLLM_URL\n',
	],
	[
		"a chat with an endpoint without its key",
		["chat", "--endpoint", "openai"],
		'endpoint "openai" has no key: pass --api-key-env <variable>, or set OPENAI_API_KEY\n',
	],
	[
		"a chat with a model that is not there",
		["chat", "--base-url", "http://127.0.0.1:9/v1", "--model", "any"],
		"No model answers at http://127.0.0.1:9/v1 (ECONNREFUSED)",
	],
	[
		"an endpoint that is almost one",
		["run", FIZZBUZZ, "--endpoint", "vlm"],
		'endpoint "vlm" is not in the catalog (did you mean vllm?)',
	],
	[
		"an endpoint that is none",
		["run", FIZZBUZZ, "--endpoint", "somebody"],
		"cred:<label> or pool:<name>, or pass --base-url, --api-key-env <variable> and --model <name>",
	],
	[
		"a stored credential with an address of its own",
		["run", FIZZBUZZ, "--endpoint", "cred:team", "--base-url", "http://127.0.0.1:9/v1"],
		'endpoint "cred:team" is a stored credential: leave out --base-url',
	],
	[
		"a credential for no web address",
		["credentials", "add", "team", "--base-url", "ftp://x", "--model", "m"],
		'--base-url wants an http(s) address such as http://127.0.0.1:8001/v1, not "ftp://x"',
	],
	[
		"an agent at no web address",
		["agent", "add", "aide", "--base-url", "ftp://x", "--model", "m"],
		'--base-url wants an http(s) address such as http://127.0.0.1:8001/v1, not "ftp://x"',
	],
	[
		"an agent with a key that is not there",
		["agent", "add", "aide", "--endpoint", "openai", "--model", "m", "--api-key-env", "NO_SUCH"],
		"--api-key-env: the environment variable NO_SUCH is not set",
	],
	[
		"an abort of nothing",
		["abort"],
		"Which rollouts? Name them, or give one of --group, --batch, --left-behind and --unfinished",
	],
	["completions for no shell", ["completion", "tcsh"], "For which shell? One of bash, zsh, fish."],
	["parquet to a terminal", ["export", "--format", "parquet"], "--format parquet needs --out"],
];

test.each(BAD)(
	"%s is one clear sentence, exit code 2, and nothing is created",
	async (_what, argv, sentence) => {
		const { code, out, err, created } = await ask(...argv);
		expect(err).toContain(sentence);
		expect(err.trim().split("\n")).toHaveLength(1);
		expect({ code, out, created }).toEqual({ code: 2, out: "", created: false });
	},
);

test("a broken task.yaml is named with its line, an unknown key with its nearest neighbour", async () => {
	await using paddock = await Paddock.open();
	const write = async (name: string, text: string) => {
		await mkdir(join(paddock.home, name));
		await writeFile(join(paddock.home, name, "task.yaml"), text);
		return join(paddock.home, name);
	};
	const malformed = await ask(
		"run",
		await write("malformed", "instruction: do it\nverify: [unclosed\n"),
		"--policy",
		"oracle",
	);
	expect(malformed.err).toMatch(/malformed\/task\.yaml:\d+/);
	const unknown = await ask(
		"run",
		await write("unknown", "instruction: do it\nverfy:\n  - true\n"),
		"--policy",
		"oracle",
	);
	expect(unknown.err).toMatch(/unknown\/task\.yaml:2.*verfy/);
	for (const { code, err, created } of [malformed, unknown]) {
		expect({ code, lines: err.trim().split("\n").length, created }).toEqual({
			code: 2,
			lines: 1,
			created: false,
		});
	}
});

test("help is on stdout, for the whole and for each command, with examples", async () => {
	const { code, out, err } = await ask("--help");
	expect({ code, err }).toEqual({ code: 0, err: "" });
	for (const { name } of COMMANDS) {
		expect(out).toMatch(new RegExp(`^ {2}${name} `, "m"));
		const help = await ask(...name.split(" "), "--help");
		expect(help.code).toBe(0);
		expect(help.out).toContain(`Usage: paddock ${name}`);
		expect(help.out).toContain("Examples:");
	}
});

const PAGES = ["README.md", "AGENTS.md", ...readdirSync("docs").map((name) => `docs/${name}`)].filter(
	(name) => name.endsWith(".md"),
);

test.each(PAGES)("%s names only commands and options that exist", (page) => {
	const lines = readFileSync(page, "utf8").matchAll(
		/(?:^|`)(?:\$ )?(?:[A-Z_]+=\S+ )*(?:npx )?paddock ([a-z][^`|>#\n]*)/gm,
	);
	for (const [, text] of lines) {
		const words = text!.trim().split(/\s+/);
		const command = COMMANDS.find(({ name }) =>
			name.split(" ").every((word, index) => words[index] === word),
		);
		expect(command?.name, text).toBeDefined();
		const rest = words.slice(command!.name.split(" ").length);
		if (rest.some((word) => word.startsWith("--"))) parseArguments(command!, rest);
	}
});

test("the version has three names, and the first word of two has help of its own", async () => {
	const versions = await Promise.all([ask("version"), ask("-v"), ask("--version")]);
	expect(new Set(versions.map(({ out }) => out)).size).toBe(1);
	expect(versions[0]!.out).toMatch(/^\d+\.\d+\.\d+\n$/);
	for (const help of [await ask("task", "--help"), await ask("help", "task")]) {
		expect(help.code).toBe(0);
		expect(help.out).toContain("Usage: paddock task check");
	}
});

test.each(["bash", "zsh", "fish"])("%s can complete every command and option", async (name) => {
	const { code, out } = await ask("completion", name);
	expect(code).toBe(0);
	for (const command of COMMANDS) {
		for (const word of command.name.split(" ")) expect(out).toContain(word);
		for (const option of Object.keys(command.options)) expect(out).toContain(option);
	}
	if (name !== "fish") expect(spawnSync("bash", ["-n"], { input: out }).status).toBe(0);
});

test("bash completes an option's words", async () => {
	const { out } = await ask("completion", "bash");
	const complete = (...words: string[]) => {
		const line = `COMP_WORDS=(${words.join(" ")} ""); COMP_CWORD=${words.length}; _paddock; echo "\${COMPREPLY[@]}"`;
		return spawnSync("bash", ["-c", `${out}\n${line}`], { encoding: "utf8" }).stdout.trim();
	};
	expect(complete("paddock", "list", "--status")).toBe("queued running done");
	expect(complete("paddock", "export", "--format")).toContain("parquet");
	expect(complete("paddock", "run", "x", "--policy")).toContain("oracle");
	expect(complete("paddock", "credentials")).toContain("rotate-key");
});

test("task check describes every example without a remark", async () => {
	const { code, out } = await ask("task", "check", "examples/tasks");
	expect(code).toBe(0);
	expect(out).toContain("fizzbuzz: ");
	expect(out).not.toContain("note:");
});
