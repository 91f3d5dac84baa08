import { execFile } from "node:child_process";
import { cp, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { main } from "../../src/cli/cli.ts";
import { Paddock } from "../cli/paddock.ts";
import { RecordedShell } from "../cli/shell.ts";
import { requirePart } from "../fixtures/parts.ts";

const run = promisify(execFile);
const RECIPES = join(import.meta.dirname, "../../examples/recipes");

test.for(["pytest", "git-repository"])(
	"the recipe %s works as its README says",
	{
		timeout: 300_000,
	},
	async (name, context) => {
		await using paddock = await Paddock.open();
		const folder = join(paddock.home, name);
		await cp(join(RECIPES, name), folder, { recursive: true });
		const [, command] = /```sh\n(.+)\n/.exec(await readFile(join(folder, "README.md"), "utf8"))!;
		await run("bash", ["-c", command!], { cwd: folder }).catch((error: { stderr: string }) => {
			const isOffline = /Connection|No matching distribution|No module named pip/.test(error.stderr);
			if (!isOffline) throw error;
			requirePart(context, "PyPI", false, "go online, with pip");
		});
		const shell = new RecordedShell({
			env: { PATH: process.env.PATH, PADDOCK_HOME: join(paddock.home, "data") },
		});
		const code = await main(["task", "check", folder, "--run"], shell);
		expect(code, shell.stdout.text).toBe(0);
		expect(shell.stdout.text).toContain("ok: its solution earns 1.00, doing nothing 0.00");
	},
);
