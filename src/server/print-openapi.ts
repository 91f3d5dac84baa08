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

if (import.meta.main) await writeFile(FILE, printed());
