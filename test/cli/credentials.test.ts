import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { main } from "../../src/cli/cli.ts";
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
		/team +api-key +https:\/\/api\.openai\.com\/v1 +gpt-4o-mini +unknown +0 of 2 +never/,
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
