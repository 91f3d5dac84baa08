import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { writePrivate } from "./home.ts";
import type { ProcessIdentity } from "./processes.ts";

/** What finds a server again after we were restarted; no secret is in it. */
export interface ServerRecord extends ProcessIdentity {
	baseUrl: string;
	/** Stands in the environment of everything the server starts. */
	mark: string;
}

const FILE = "server.json";

/** One that is about to be started: whoever reads this finds what came of it by its mark, and no process by its number. */
export function startingServer(mark: string): ServerRecord {
	return { pid: 0, startTime: "", baseUrl: "", mark };
}

export async function rememberServer(
	home: string,
	{ pid, startTime, baseUrl, mark }: ServerRecord,
): Promise<void> {
	await writePrivate(home, FILE, JSON.stringify({ pid, startTime, baseUrl, mark }));
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
		return null; // Not ours.
	}
}

/** Another may have been started meanwhile: that one is not forgotten. */
export async function forgetServer(home: string, { mark }: Pick<ServerRecord, "mark">): Promise<void> {
	const remembered = await recallServer(home);
	if (remembered === null || remembered.mark === mark) await rm(join(home, FILE), { force: true });
}
