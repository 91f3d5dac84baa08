import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { describeContract } from "./openapi.ts";

const FILE = fileURLToPath(new URL("../../schemas/openapi.json", import.meta.url));

/** Whether schemas/openapi.json says what the route values say. */
export async function isOpenApiFresh(): Promise<boolean> {
	return (await readFile(FILE, "utf8").catch(() => "")) === printed();
}

function printed(): string {
	return `${JSON.stringify(describeContract(), null, "\t")}\n`;
}

/** `--check` only looks, for scripts. */
if (import.meta.main) {
	if (!process.argv.includes("--check")) await writeFile(FILE, printed());
	else if (!(await isOpenApiFresh())) {
		process.stderr.write("schemas/openapi.json is stale: run node src/server/print-openapi.ts\n");
		process.exitCode = 1;
	}
}
