import { openAsBlob } from "node:fs";
import { CommandExitError, type Sandbox as Machine } from "e2b";
import { messageOf, RolloutError } from "../../errors.ts";
import { digestOf } from "../../host/digest.ts";
import { type BoxSpec, HOME } from "../../model/task.ts";
import { AGENT_PATH, BOX_BIN, INIT_PATH } from "../box/launch.ts";
import { RUN_UNTRUSTED, runUntrustedTool } from "../box/run-untrusted.ts";
import { initProgram } from "../box/staging.ts";
import { bridgeProgram } from "../tunnel/tunnel.ts";

const TOOL_PATH = `${BOX_BIN}/${RUN_UNTRUSTED}`;
export const BRIDGE_PATH = "/opt/agent/bridge.ts";
/** Uploading the agent's binary may take a while on a thin line. */
const UPLOAD_TIMEOUT_MS = 600_000;

/** What was found and made in a fresh machine. */
export interface Prepared {
	/** Whom the box's processes run as. */
	uid: number;
	/** Whether the home folder could be given its size. */
	sizedHome: boolean;
}

/** Brings our own programs into a fresh machine and gives it an empty home of its size. */
export async function prepareMachine(machine: Machine, spec: BoxSpec): Promise<Prepared> {
	await machine.files.write(
		[
			{ path: INIT_PATH, data: initProgram().toString() },
			{ path: TOOL_PATH, data: runUntrustedTool(AGENT_PATH).toString() },
			{ path: BRIDGE_PATH, data: bridgeProgram().toString() },
		],
		{ user: "root" },
	);
	const uid = Number(await asRoot(machine, "id -u user 2>/dev/null || echo 1000"));
	return { uid, sizedHome: (await asRoot(machine, settle(spec, uid))).includes("sized") };
}

/** Whether the machine has exactly this OpenCode. */
export async function hasAgent(machine: Machine, binary: string): Promise<boolean> {
	const found = await asRoot(machine, `sha256sum ${AGENT_PATH} 2>/dev/null | cut -d ' ' -f 1`);
	return found === (await checksumOf(binary));
}

export async function uploadAgent(machine: Machine, binary: string): Promise<void> {
	const blob = await openAsBlob(binary);
	await machine.files.write(AGENT_PATH, blob.stream(), { user: "root", requestTimeoutMs: UPLOAD_TIMEOUT_MS });
	await asRoot(machine, `chmod 755 ${AGENT_PATH}`);
	if (await hasAgent(machine, binary)) return;
	throw new RolloutError("sandbox", "e2b_failed", "OpenCode arrived damaged in the machine", {
		retryable: true,
	});
}

/** Everything the box writes is in memory and sized, as on every other backend; where that is refused, the disk is used. */
function settle({ diskMb }: BoxSpec, uid: number): string {
	return [
		`chmod 755 /opt/agent ${BOX_BIN} ${TOOL_PATH} && chmod 644 ${INIT_PATH} ${BRIDGE_PATH}`,
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

/** Asked for every machine, and large: worked out once. */
export function checksumOf(path: string): Promise<string> {
	const known = checksums.get(path) ?? digestOf(path);
	checksums.set(path, known);
	return known;
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
	const status = (error as { statusCode?: number }).statusCode;
	if (name === "TemplateError" || status === 404 || status === 400) {
		return new RolloutError("sandbox", "e2b_template_unusable", messageOf(error), { cause: error });
	}
	return new RolloutError("sandbox", "e2b_failed", messageOf(error), { retryable: true, cause: error });
}
