import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { messageOf, UsageError } from "../errors.ts";
import { digestOf } from "./digest.ts";

const run = promisify(execFile);
/** Where npm's packages of the agent have it. */
const MEMBER = "package/bin/opencode";

export interface UnpackedAgent extends AsyncDisposable {
	path: string;
}

/** The agent out of a package as npm publishes it; nothing is unpacked before the whole archive is what it should be. */
export async function unpackAgent(archive: string, sha256: string): Promise<UnpackedAgent> {
	const found = await digestOf(archive).catch((error) => {
		throw refused(archive, messageOf(error));
	});
	if (found !== sha256.toLowerCase())
		throw refused(archive, `its SHA-256 is ${found}, not ${sha256}: it was cut short, or changed`);
	const folder = await mkdtemp(join(tmpdir(), "paddock-agent-"));
	try {
		await run("tar", ["-xzf", archive, "-C", folder, "--no-same-owner", MEMBER]);
		const dispose = () => rm(folder, { recursive: true, force: true });
		return { path: join(folder, MEMBER), [Symbol.asyncDispose]: dispose };
	} catch (error) {
		await rm(folder, { recursive: true, force: true });
		throw refused(archive, `it holds no ${MEMBER}: ${messageOf(error).split("\n").at(-2) ?? ""}`);
	}
}

function refused(archive: string, why: string): UsageError {
	return new UsageError(`${archive} is not installed: ${why}`, "archive_refused");
}
