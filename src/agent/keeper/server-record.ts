import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ProcessIdentity } from "./processes.ts";

/** What finds a server again after we were restarted; no secret is in it. */
export interface ServerRecord extends ProcessIdentity {
	baseUrl: string;
	/** Stands in the environment of everything the server starts. */
	mark: string;
}

const FILE = "server.json";

export async function rememberServer(
	home: string,
	{ pid, startTime, baseUrl, mark }: ServerRecord,
): Promise<void> {
	await writeFile(join(home, FILE), JSON.stringify({ pid, startTime, baseUrl, mark }), { mode: 0o600 });
}

export async function recallServer(home: string): Promise<ServerRecord | null> {
	const text = await readFile(join(home, FILE), "utf8").catch(() => null);
	if (text === null) return null;
	try {
		const { pid, startTime, baseUrl, mark } = JSON.parse(text) as ServerRecord;
		const isWhole =
			Number.isInteger(pid) && [startTime, baseUrl, mark].every((field) => typeof field === "string");
		return isWhole && mark !== "" ? { pid, startTime, baseUrl, mark } : null;
	} catch {
		return null; // Cut short by a crash: as good as none.
	}
}

export async function forgetServer(home: string): Promise<void> {
	await rm(join(home, FILE), { force: true });
}
