import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { main } from "../../src/cli/cli.ts";
import { openOauthProvider } from "../fakes/oauth-provider.ts";
import { filesHolding } from "../fixtures/evidence.ts";
import { RecordedShell } from "./shell.ts";

const CANARY = "sk-canary-77aa01f4c9";
let home = "";
beforeAll(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-credentials-"));
});
afterAll(() => rm(home, { recursive: true }));

async function ask(argv: string[], input?: string) {
	const shell = new RecordedShell({ env: { PADDOCK_HOME: home }, ...(input === undefined ? {} : { input }) });
	const code = await main(["credentials", ...argv], shell);
	const said = shell.stdout.text + shell.stderr.text;
	expect(said).not.toContain(CANARY);
	return { code, said };
}

const ADD = ["add", "team", "--base-url", "https://api.openai.com/v1", "--model", "gpt-4o-mini"];

test("an API key comes in by standard input, is listed and shown without it, and goes", async () => {
	expect((await ask(["list"])).said).toContain("No credentials here");
	expect(await ask([...ADD, "--capacity", "2"], `${CANARY}\n`)).toMatchObject({
		code: 0,
		said: expect.stringMatching(
			/^Stored as team \(fingerprint [0-9a-f]{12}\)\. Use it: --endpoint cred:team/,
		),
	});
	expect((await ask(["list"])).said).toMatch(
		/team +api-key +- +https:\/\/api\.openai\.com\/v1 +gpt-4o-mini +unknown +0 of 2 +never/,
	);
	expect(JSON.parse((await ask(["show", "team"])).said)).toMatchObject({ label: "team", holders: [] });
	expect(await ask(ADD, CANARY)).toMatchObject({ code: 2, said: expect.stringContaining("already") });

	const before = await readFile(join(home, "secret.key"));
	expect(await ask(["rotate-key"])).toMatchObject({ code: 0 });
	expect(await readFile(join(home, "secret.key"))).not.toEqual(before);
	expect(await filesHolding(home, CANARY)).toEqual([]);

	expect(await ask(["delete", "team"])).toMatchObject({ code: 0, said: "Deleted team.\n" });
	expect(await ask(["delete", "team"])).toMatchObject({
		code: 2,
		said: expect.stringContaining("no credential"),
	});
	expect(await ask(["show", "team"])).toMatchObject({ code: 2 });
});

test.each([
	["nothing piped in", undefined, "read from standard input"],
	["an empty key", "\n", "the key is empty"],
	["two lines", "sk-one-1234\nsk-two-1234", "one line"],
	["a key cut short", "sk-1", "8 to 4096"],
])("%s is refused with a reason, and nothing is stored", async (_name, input, reason) => {
	expect(await ask(ADD, input)).toMatchObject({ code: 2, said: expect.stringContaining(reason) });
	expect((await ask(["list"])).said).toContain("No credentials here");
});

test("a label, an address and a model have to be given, and be right", async () => {
	expect((await ask(["add"], CANARY)).said).toContain("Name one label");
	expect((await ask(["add", "team"], CANARY)).said).toContain("--base-url");
	expect((await ask(["add", "Team!", ...ADD.slice(2)], CANARY)).said).toContain("small letters");
	expect((await ask(["add", "team", "--base-url", "ftp://x", "--model", "m"], CANARY)).said).toContain(
		"http",
	);
});

const AUTH = ".local/share/opencode/auth.json";

async function agentHome(auth: object): Promise<string> {
	const folder = await mkdtemp(join(tmpdir(), "paddock-agent-home-"));
	await mkdir(dirname(join(folder, AUTH)), { recursive: true });
	await writeFile(join(folder, AUTH), JSON.stringify(auth));
	return folder;
}

test("a login is captured from a home or made in a throwaway one, verified, pooled and purged", async () => {
	await using provider = await openOauthProvider();
	const where = [
		"--model",
		"acme/large",
		"--base-url",
		provider.baseUrl,
		"--dialect",
		"plain",
		"--pool",
		"team",
	];
	const how = ["--token-url", provider.tokenUrl, "--client-id", provider.clientId];
	const auth = JSON.parse(String(provider.login("acme").get(AUTH)));
	const from = await agentHome(auth);

	const lacking = await ask(["capture", "ada", "--from", from, ...where]);
	expect(lacking).toMatchObject({ code: 2, said: expect.stringContaining("--token-url") });
	const captured = await ask(["capture", "ada", "--from", from, ...where, ...how]);
	expect(captured).toMatchObject({ code: 0, said: expect.stringContaining("--endpoint pool:team") });
	await rm(from, { recursive: true });

	const program = join(home, "log-in");
	const token = JSON.stringify(JSON.parse(String(provider.login("acme").get(AUTH))));
	const steps = [
		`mkdir -p "$HOME/${dirname(AUTH)}"`,
		`cat > "$HOME/${AUTH}" <<'E'`,
		token,
		"E",
		`echo "$HOME" > ${home}/where`,
	];
	await writeFile(program, ["#!/bin/sh", ...steps, ""].join("\n"), { mode: 0o700 });
	expect(await ask(["capture", "ben", "--login", program, ...where, ...how])).toMatchObject({ code: 0 });
	const throwaway = (await readFile(join(home, "where"), "utf8")).trim();
	await expect(stat(throwaway)).rejects.toMatchObject({ code: "ENOENT" });
	await rm(program);

	expect(await ask(["verify", "--all"])).toMatchObject({ code: 0, said: "ada: alive\nben: alive\n" });
	provider.revokeAll();
	expect(await ask(["verify", "ada"])).toMatchObject({ code: 1, said: expect.stringContaining("ada: dead") });
	expect((await ask(["list"])).said).toMatch(/ada +login +team .* dead /);
	expect(await ask(["purge"])).toMatchObject({ code: 0, said: "Deleted ada.\n" });
	expect(await ask(["purge", "--pool", "team"])).toMatchObject({ code: 0, said: "Deleted ben.\n" });
	expect(await ask(["purge"])).toMatchObject({ code: 0, said: "Nothing to forget.\n" });
	for (const token of provider.issued) expect(await filesHolding(home, token)).toEqual([]);
});

test("a login that only the agent can speak for is stored with the hosts it may reach, and says what that means", async () => {
	await using provider = await openOauthProvider();
	const from = await agentHome(JSON.parse(String(provider.login("acme").get(AUTH))));
	const capture = (hosts: string, ...more: string[]) =>
		ask(["capture", "own", "--from", from, "--model", "acme/large", "--plant", hosts, ...more]);
	for (const hosts of ["*.acme.example", "10.0.0.1", "https://acme.example", "acme.example,"])
		expect(await capture(hosts)).toMatchObject({
			code: 2,
			said: expect.stringContaining("no name of a host"),
		});
	expect(await ask([...ADD, "--pool", "carried"], CANARY)).toMatchObject({ code: 0 });
	expect((await capture("acme.example", "--pool", "carried")).said).toContain("take another");
	expect(await ask(["delete", "team"])).toMatchObject({ code: 0 });

	const captured = await capture("api.acme.example,auth.acme.example:8443");
	expect(captured).toMatchObject({ code: 0, said: expect.stringContaining("untrainable") });
	await rm(from, { recursive: true });
	expect(JSON.parse((await ask(["show", "own"])).said)).toMatchObject({
		endpoint: null,
		planted: { provider: "acme", model: "large", hosts: ["api.acme.example", "auth.acme.example:8443"] },
		quarantine: [],
	});
	expect((await ask(["list"])).said).toMatch(
		/own +login +- +in the box, to api\.acme\.example, .* large +unknown/,
	);
	for (const token of provider.issued) expect(await filesHolding(home, token)).toEqual([]);

	const shell = new RecordedShell({ env: { PADDOCK_HOME: home } });
	const task = join(import.meta.dirname, "../../examples/tasks/fizzbuzz");
	expect(await main(["run", task, "--endpoint", "cred:own", "--sandbox", "process"], shell)).toBe(2);
	expect(await ask(["free", "nobody"])).toMatchObject({
		code: 2,
		said: expect.stringContaining("no credential"),
	});
	expect(await ask(["free", "own", "--newest"])).toMatchObject({
		code: 2,
		said: expect.stringContaining("nothing of own was put aside"),
	});
	expect(await ask(["free", "own"])).toMatchObject({
		code: 0,
		said: expect.stringContaining("may be used again"),
	});
	expect(await ask(["delete", "own"])).toMatchObject({ code: 0 });
});

test("an API key is not planted", async () => {
	const from = await agentHome({ acme: { type: "api", key: CANARY } });
	const said = await ask([
		"capture",
		"own",
		"--from",
		from,
		"--model",
		"acme/large",
		"--plant",
		"acme.example",
	]);
	expect(said).toMatchObject({ code: 2, said: expect.stringContaining("need not lie in a box") });
	await rm(from, { recursive: true });
});

test("the program that logs in sees a home of its own, and neither a key nor a login of the caller's", async () => {
	const program = join(home, "look-around");
	await writeFile(program, `#!/bin/sh\nenv > ${home}/surroundings\nexit 1\n`, { mode: 0o700 });
	const keys = {
		OPENAI_API_KEY: CANARY,
		opencode_auth_content: CANARY,
		PADDOCK_TOKEN: CANARY,
		NODE_OPTIONS: "",
	};
	const shell = new RecordedShell({
		env: { PADDOCK_HOME: home, PATH: process.env.PATH!, TERM: "dumb", ...keys },
	});
	expect(await main(["credentials", "capture", "ada", "--login", program], shell)).toBe(2);
	const seen = (await readFile(join(home, "surroundings"), "utf8"))
		.split("\n")
		.map((line) => line.split("=")[0]);
	expect(seen).toEqual(expect.arrayContaining(["HOME", "PATH", "TERM"]));
	for (const name of ["PADDOCK_HOME", ...Object.keys(keys)]) expect(seen).not.toContain(name);
	await rm(program);
	await rm(join(home, "surroundings"));
});

test("a capture without a terminal, of nobody, or by a program that fails stores nothing", async () => {
	expect((await ask(["capture", "ada"], "")).said).toContain("needs a terminal");
	const from = await agentHome({});
	expect((await ask(["capture", "ada", "--from", from])).said).toContain("nobody is logged in");
	await rm(from, { recursive: true });
	expect((await ask(["capture", "ada", "--login", "/bin/false"])).said).toContain("ended with 1");
	expect((await ask(["capture", "ada", "--login", "/nowhere/at/all"])).said).toContain("cannot be started");
	expect((await ask(["list"])).said).toContain("No credentials here");
});

test.for([
	["cred:nobody", "there is no credential nobody"],
	["pool:nobody", "no credential is in the pool nobody"],
	["resolve:somebody", "PADDOCK_CREDENTIAL_RESOLVER is not set"],
])("a run with %s is refused in words", async ([endpoint, words]) => {
	const shell = new RecordedShell({ env: { PADDOCK_HOME: home } });
	const task = join(import.meta.dirname, "../../examples/tasks/fizzbuzz");
	expect(await main(["run", task, "--endpoint", endpoint!], shell)).toBe(2);
	expect(shell.stderr.text).toContain(words);
});
