import { randomBytes } from "node:crypto";
import type { Agent, BootedAgent } from "../../agent/agent.ts";
import { AGENT_FOLDERS } from "../../agent/opencode-config.ts";
import { RolloutError, within } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { toTimerMs } from "../../model/duration.ts";
import { type SetupEvent, toStart } from "../../model/event.ts";
import type { RolloutRequest, StoredRequest } from "../../model/request.ts";
import { AGENT_LOG_DIR, type BoxSpec, HOME, INSTRUCTION_PATH, type Task, WORKDIR } from "../../model/task.ts";
import { type Backend, pathIn, type Sandbox } from "../../sandbox/sandbox.ts";
import { runCommand } from "../../verify/commands.ts";
import { stageFiles } from "../../verify/verifier.ts";
import { inTime, unresponsiveBox } from "../clock.ts";
import type { PlantedLogin } from "../login/planted.ts";
import type { RolloutRecord } from "../record.ts";
import { type Folder, findFolder, requireSameFolder } from "../talk/folder.ts";
import type { Turnstile } from "../turnstile.ts";
import { Snapshot } from "./snapshot.ts";

/** What a backend may take to give up after its clock. */
const OPEN_GRACE_MS = 10_000;
/** Above the driver's own limit, which has the better explanation. */
const BOOT_LIMIT_S = 150;
/** Not every backend holds a box to its disk, and an archive is larger than what is in it. */
const SNAPSHOT_PER_DISK = 4;

const TESTS_MB = 64;

/** A box with the task in it and the agent waiting for its first prompt. */
export interface ReadyBox extends AsyncDisposable {
	box: Sandbox;
	agent: BootedAgent;
	/** The gateway key the agent was booted with. */
	key: string;
	/** What the agent is given: home after setup, before the agent's first step. */
	given: Snapshot;
	/** The login that lies in the box, for an agent that speaks to its provider itself. */
	planted?: PlantedLogin | undefined;
}

export interface ReadyBoxes {
	open(
		request: StoredRequest,
		record: RolloutRecord,
		signal: AbortSignal,
		planted?: PlantedLogin | undefined,
	): Promise<ReadyBox>;
}

export interface ReadyDeps {
	gateway: Gateway;
	agent: Agent;
	backend(name: string): Promise<Backend>;
	/** Agent starts cost three CPU-seconds each; more at once than cores only makes all of them late. */
	starts: Turnstile;
	/** The folders of this machine that agents may work in. */
	folders?: readonly string[] | undefined;
}

/** A key that is good for one rollout, from one box. */
export function newKey(): string {
	return `pdk-${randomBytes(24).toString("base64url")}`;
}

/** Opens the agent's box, or (without a gateway) the verifier's, within the create clock. */
export async function openBox(
	deps: Pick<ReadyDeps, "backend" | "folders"> & Partial<Pick<ReadyDeps, "gateway">>,
	request: StoredRequest,
	signal: AbortSignal,
	options: { isAhead?: boolean } = {},
): Promise<Sandbox> {
	const { task } = request;
	const { gateway } = deps;
	const folder = gateway === undefined ? null : await folderOf(request, deps.folders ?? []);
	const ms = task.clocks.createS * 1000;
	const clock = AbortSignal.timeout(toTimerMs(ms));
	const late = (cause?: unknown) => {
		const message = `the ${request.sandbox} sandbox did not open within ${task.clocks.createS} s`;
		return new RolloutError("sandbox", "sandbox_open_timeout", message, { retryable: true, cause });
	};
	const open = async () =>
		await (await deps.backend(request.sandbox)).open({
			spec: gateway ? task.box : withRoomForBoth(task.box),
			signal: AbortSignal.any([signal, clock]),
			...options,
			...(folder === null ? {} : { folder: folder.path }),
			...(gateway
				? { onGateway: (connection, boxId) => gateway.accept(connection, boxId) }
				: { role: "verifier", onGateway: (connection) => connection.destroy() }),
		});
	try {
		const box = await within(
			"sandbox",
			"sandbox_open_failed",
			() => inTime(open(), { ms: ms + OPEN_GRACE_MS, late, signal }, (box) => box[Symbol.asyncDispose]()),
			{ retryable: true },
		);
		if (folder !== null) await closedUnless(box, () => requireSameFolder(box, folder));
		return box;
	} catch (error) {
		if (!clock.aborted || signal.aborted) throw error;
		throw late(error);
	}
}

async function folderOf({ conversation }: StoredRequest, allowed: readonly string[]): Promise<Folder | null> {
	if (conversation?.folder === undefined) return null;
	return await findFolder(conversation.folder, conversation.isOwnFolder ? null : allowed);
}

async function closedUnless(box: Sandbox, check: () => Promise<void>): Promise<void> {
	try {
		await check();
	} catch (error) {
		await box[Symbol.asyncDispose]();
		throw error;
	}
}

/** The verifier's disk holds what was given, what the agent made of it, and the tests: a full one is the agent's own affair. */
function withRoomForBoth(spec: BoxSpec): BoxSpec {
	return { ...spec, diskMb: 2 * spec.diskMb + TESTS_MB };
}

export async function bootAgent(
	deps: ReadyDeps,
	box: Sandbox,
	request: RolloutRequest,
	key: string,
	signal: AbortSignal,
	ownModel?: string | undefined,
): Promise<BootedAgent> {
	using _turn = await deps.starts.enter(signal);
	const late = () => unresponsiveBox("starting the agent", BOOT_LIMIT_S);
	return await inTime(deps.agent.boot(box, request.agent, key, signal, ownModel), {
		ms: BOOT_LIMIT_S * 1000,
		late,
		signal,
	});
}

/** Puts the task into the box, runs its setup, and remembers what the agent is given. */
export async function prepare(
	{ task, conversation }: StoredRequest,
	box: Sandbox,
	onSetup: (event: SetupEvent) => void,
	signal: AbortSignal,
): Promise<Snapshot> {
	// Copying the task in and the snapshot out has the create clock, the commands have the setup clock.
	const limitS = task.clocks.createS + task.clocks.setupS;
	const late = () => unresponsiveBox("setting the task up", limitS);
	const give = async () => {
		const at = (path: string) => pathIn(box, path);
		await box.exec(["mkdir", "-p", at(WORKDIR), at(AGENT_LOG_DIR)], { signal });
		await box.writeFile(at(INSTRUCTION_PATH), task.instruction);
		await stageFiles(box, task.files, at(WORKDIR));
		await setUp(task, box, onSetup, signal);
		// A folder of this machine is not the box's to keep.
		const exclude =
			conversation?.folder === undefined ? AGENT_FOLDERS : [...AGENT_FOLDERS, WORKDIR.slice(HOME.length + 1)];
		return await Snapshot.take(box, exclude, task.box.diskMb * SNAPSHOT_PER_DISK * 1024 * 1024);
	};
	return await within(
		"sandbox",
		"staging_failed",
		() => inTime(give(), { ms: limitS * 1000, late, signal }, (given) => given[Symbol.asyncDispose]()),
		{ retryable: true },
	);
}

/** A failing setup ends the rollout there: an agent in a half-made world proves nothing. */
async function setUp(
	task: Task,
	box: Sandbox,
	onSetup: (event: SetupEvent) => void,
	signal: AbortSignal,
): Promise<void> {
	const deadline = Date.now() + task.clocks.setupS * 1000;
	for (const [index, command] of task.setup.entries()) {
		onSetup({ type: "setup-start", ...toStart(command, index, task.setup.length) });
		const timeoutMs = Math.max(1, deadline - Date.now());
		const result = await runCommand(box, command, {
			cwd: pathIn(box, WORKDIR),
			timeoutMs,
			signal,
		});
		onSetup({ type: "setup-end", result });
		if (result.exitCode === 0) continue;
		const said = (result.stderr || result.stdout).trim().split("\n").at(-1) ?? "";
		const message = `setup command ${JSON.stringify(command)} ended with ${result.exitCode}: ${said}`;
		throw new RolloutError("task", "setup_failed", message);
	}
}
