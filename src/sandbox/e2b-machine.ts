import { createHash } from "node:crypto";
import { createReadStream, openAsBlob } from "node:fs";
import { readFile } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { CommandExitError, type Sandbox as Machine } from "e2b";
import { messageOf, RolloutError } from "../errors.ts";
import { type BoxSpec, HOME } from "../model/task.ts";
import { AGENT_PATH, INIT_PATH } from "./bwrap.ts";
import { INIT_SOURCE } from "./staging.ts";
import { BRIDGE_SOURCE } from "./tunnel.ts";

export const BRIDGE_PATH = "/opt/agent/bridge.js";
/** Uploading the agent's binary may take a while on a thin line. */
const UPLOAD_TIMEOUT_MS = 600_000;

/** What was found and made in a fresh machine. */
export interface Prepared {
	/** Whom the box's processes run as. */
	uid: number;
	/** Whether the home folder could be given its size. */
	sizedHome: boolean;
}

/** Brings the programs of a box into a fresh machine and gives it an empty home of its size. */
export async function prepareMachine(
	machine: Machine,
	spec: BoxSpec,
	agentBinary: string,
	warn: (message: string) => void,
): Promise<Prepared> {
	const found = await asRoot(machine, LOOK);
	const installed = /^agent=([0-9a-f]{64})$/m.exec(found)?.[1] ?? null;
	const uid = Number(/^uid=(\d+)$/m.exec(found)?.[1] ?? 1000);
	if (installed !== (await checksumOf(agentBinary))) await uploadAgent(machine, agentBinary, installed, warn);
	await machine.files.write(
		[
			{ path: INIT_PATH, data: await readFile(INIT_SOURCE, "utf8") },
			{ path: BRIDGE_PATH, data: await readFile(BRIDGE_SOURCE, "utf8") },
		],
		{ user: "root" },
	);
	return { uid, sizedHome: (await asRoot(machine, settle(spec, uid))).includes("sized") };
}

const LOOK = `echo "agent=$(sha256sum ${AGENT_PATH} 2>/dev/null | cut -d ' ' -f 1)"; echo "uid=$(id -u user 2>/dev/null)"`;

/** A template without the agent works, but pays for the upload with every box. */
async function uploadAgent(
	machine: Machine,
	binary: string,
	installed: string | null,
	warn: (message: string) => void,
): Promise<void> {
	const state = installed === null ? "lacks OpenCode" : "has another version of OpenCode";
	warn(`the E2B template ${state}, so it is uploaded for every box: run \`paddock e2b build-template\` once`);
	const blob = await openAsBlob(binary);
	await machine.files.write(AGENT_PATH, blob.stream(), { user: "root", requestTimeoutMs: UPLOAD_TIMEOUT_MS });
	await asRoot(machine, `chmod 755 ${AGENT_PATH}`);
}

/** Everything the box writes is in memory and sized, as on every other backend; where that is refused, the disk is used. */
function settle({ diskMb }: BoxSpec, uid: number): string {
	return [
		`chmod 755 /opt/agent && chmod 644 ${INIT_PATH} ${BRIDGE_PATH}`,
		`mkdir -p ${HOME}`,
		`if mount -t tmpfs -o size=${diskMb}m,mode=0755,uid=${uid},gid=${uid},nosuid,nodev tmpfs ${HOME} 2>/dev/null`,
		`then echo sized; else chown ${uid}:${uid} ${HOME}; fi`,
	].join("\n");
}

async function asRoot(machine: Machine, script: string): Promise<string> {
	const { stdout } = await machine.commands.run(script, { user: "root", timeoutMs: 60_000 });
	return stdout.trim();
}

const checksums = new Map<string, Promise<string>>();

function checksumOf(path: string): Promise<string> {
	const known = checksums.get(path) ?? computeChecksum(path);
	checksums.set(path, known);
	return known;
}

async function computeChecksum(path: string): Promise<string> {
	const hash = createHash("sha256");
	await pipeline(createReadStream(path), hash);
	return hash.digest("hex");
}

/** The SDK's errors, by what can be done about them. */
export function toFailure(error: unknown): RolloutError {
	if (error instanceof RolloutError) return error;
	const name = error instanceof Error ? error.name : "";
	if (error instanceof CommandExitError) {
		return new RolloutError(
			"sandbox",
			"e2b_failed",
			`a step in the machine failed: ${error.stderr.slice(-500)}`,
		);
	}
	if (name === "AuthenticationError") {
		return new RolloutError("sandbox", "e2b_login_refused", "E2B does not accept E2B_API_KEY", {
			cause: error,
		});
	}
	if (name === "NotFoundError" || name === "TemplateError") {
		return new RolloutError("sandbox", "e2b_template_unusable", messageOf(error), { cause: error });
	}
	return new RolloutError("sandbox", "e2b_failed", messageOf(error), { retryable: true, cause: error });
}
