import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { filesHolding } from "../fixtures/evidence.ts";
import { requirePart } from "../fixtures/parts.ts";
import { hasTmux, Terminal } from "./terminal.ts";

const LAUNCHER = join(import.meta.dirname, "../../bin/paddock.mjs");
const KEY = "sk-canary-typed-1f0a";

test("who logs in with the agent's own program, in a terminal, has the login stored and nothing left of it elsewhere", async (context) => {
	requirePart(context, "tmux", hasTmux(), "apt-get install tmux");
	const root = await mkdtemp(join(tmpdir(), "paddock-terminal-"));
	const [home, temporary] = [join(root, "data"), join(root, "tmp")];
	await mkdir(temporary);
	const command = [
		...[`PADDOCK_HOME=${home}`, `TMPDIR=${temporary}`, process.execPath, LAUNCHER, "credentials", "capture"],
		...["team", "--model", "acme/large", "--base-url", "http://127.0.0.1:9/v1"],
	].join(" ");
	// By then its home is gone.
	const line = `${command}; echo ended $?`;
	try {
		using terminal = new Terminal(line, { columns: 100, rows: 40 });
		const shows = (words: string) =>
			vi.waitFor(() => expect(terminal.lines().join("\n")).toContain(words), 60_000);
		await shows("Select provider");
		terminal.press("other");
		await shows("1 match");
		terminal.press("Enter");
		await shows("Enter provider id");
		terminal.type("acme");
		await shows("Enter your API key");
		terminal.type(KEY);
		await shows("Stored as team");
		await shows("ended 0");
		expect(terminal.lines().join("\n")).not.toContain(KEY);
		expect(await readdir(temporary)).not.toContainEqual(expect.stringContaining("paddock-login-"));
		expect(await filesHolding(root, KEY)).toEqual([]);
		await using store = await openSqliteStore({ home });
		expect(await store.credentials.acquire("team", "test", 0)).toMatchObject({
			secret: KEY,
			credential: { kind: "api-key", endpoint: { model: "large", baseUrl: "http://127.0.0.1:9/v1" } },
		});
	} finally {
		await rm(root, { recursive: true, force: true });
	}
}, 240_000);
