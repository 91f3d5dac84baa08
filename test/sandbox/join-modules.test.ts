import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { joinModules } from "../../src/sandbox/box/join-modules.ts";

let folder: string;
beforeEach(async () => {
	folder = await mkdtemp(join(tmpdir(), "paddock-join-"));
});
afterEach(() => rm(folder, { recursive: true }));

test("modules joined into one file do what they did apart, also where their names collide", async () => {
	await write(
		"shared.ts",
		"export const SIZE = 3;\nexport interface Shape { size: number }\nlet hidden = 1;\nexport function next(): number { return hidden++; }\n",
	);
	await write(
		"one.ts",
		`import { basename } from "node:path";
import { SIZE, type Shape, next as following } from "./shared.ts";

function describe(shape: Shape): string { return basename(\`/x/\${shape.size}\`); }
export class One { text = describe({ size: SIZE }) + following(); }
`,
	);
	await write(
		"main.ts",
		`import { basename, join } from "node:path";
import { One } from "./one.ts";
import type { Shape } from "./shared.ts";
import {
	next,
	SIZE,
} from "./shared.ts";

const describe: Shape = { size: SIZE + 1 };
console.log(new One().text, describe.size, next(), basename(join("a", "b")));
`,
	);
	await write("joined.ts", joinModules(join(folder, "main.ts")));
	expect(await run("joined.ts")).toBe("31 4 2 b\n");
	expect(await run("main.ts")).toBe("31 4 2 b\n");
});

const write = (name: string, text: string) => writeFile(join(folder, name), text);

async function run(name: string): Promise<string> {
	return (await promisify(execFile)(process.execPath, [join(folder, name)])).stdout;
}
