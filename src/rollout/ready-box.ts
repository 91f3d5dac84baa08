import { randomBytes } from "node:crypto";
import type { Agent, BootedAgent } from "../agent/agent.ts";
import { AGENT_FOLDERS } from "../agent/opencode-config.ts";
import { RolloutError, within } from "../errors.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { CommandResult } from "../model/event.ts";
import type { RolloutRequest } from "../model/request.ts";
import { AGENT_LOG_DIR, HOME, INSTRUCTION_PATH, type Task, WORKDIR } from "../model/task.ts";
import type { Sandbox, SandboxProvider } from "../sandbox/sandbox.ts";
import { stageFiles } from "../verify/clean-box.ts";
import { runCommand } from "../verify/commands.ts";
import type { RolloutRecord } from "./record.ts";
import { Snapshot } from "./snapshot.ts";
import type { Turnstile } from "./turnstile.ts";

/** A box with the task in it and the agent waiting for its first prompt. */
export interface ReadyBox extends AsyncDisposable {
	box: Sandbox;
	agent: BootedAgent;
	/** The gateway key the agent was booted with. */
	key: string;
	/** What the agent is given: home after setup, before the agent's first step. */
	given: Snapshot;
}

export interface ReadyBoxes {
	open(request: RolloutRequest, record: RolloutRecord, signal: AbortSignal): Promise<ReadyBox>;
}

export interface ReadyDeps {
	gateway: Gateway;
	agent: Agent;
	provider(backend: string): Promise<SandboxProvider>;
	/** Agent starts cost three CPU-seconds each; more at once than cores only makes all of them late. */
	starts: Turnstile;
}

/** A key that is good for one rollout, from one box. */
export function newKey(): string {
	return `pdk-${randomBytes(24).toString("base64url")}`;
}

export async function openBox(
	deps: ReadyDeps,
	request: RolloutRequest,
	signal: AbortSignal,
): Promise<Sandbox> {
	const { task } = request;
	const clock = AbortSignal.timeout(task.clocks.createS * 1000);
	try {
		return await within(
			"sandbox",
			"sandbox_open_failed",
			async () =>
				await (await deps.provider(request.sandbox)).open({
					spec: task.box,
					onGateway: (connection, boxId) => deps.gateway.accept(connection, boxId),
					signal: AbortSignal.any([signal, clock]),
				}),
			{ retryable: true },
		);
	} catch (error) {
		if (!clock.aborted || signal.aborted) throw error;
		const message = `the ${request.sandbox} sandbox did not open within ${task.clocks.createS} s`;
		throw new RolloutError("sandbox", "sandbox_open_timeout", message, { retryable: true, cause: error });
	}
}

export async function bootAgent(
	deps: ReadyDeps,
	box: Sandbox,
	request: RolloutRequest,
	key: string,
	signal: AbortSignal,
): Promise<BootedAgent> {
	using _turn = await deps.starts.enter();
	signal.throwIfAborted();
	return await deps.agent.boot(box, request.agent, key, signal);
}

/** Puts the task into the box, runs its setup, and remembers what the agent is given. */
export async function prepare(
	task: Task,
	box: Sandbox,
	onSetup: (result: CommandResult) => void,
	signal: AbortSignal,
): Promise<Snapshot> {
	return await within(
		"sandbox",
		"staging_failed",
		async () => {
			const at = (path: string) => path.replace(HOME, box.home);
			await box.exec(["mkdir", "-p", at(WORKDIR), at(AGENT_LOG_DIR)], { signal });
			await box.writeFile(at(INSTRUCTION_PATH), task.instruction);
			await stageFiles(box, task.files, at(WORKDIR));
			await setUp(task, box, onSetup, signal);
			return await Snapshot.take(box, AGENT_FOLDERS);
		},
		{ retryable: true },
	);
}

/** A failing setup ends the rollout there: an agent in a half-made world proves nothing. */
async function setUp(
	task: Task,
	box: Sandbox,
	onSetup: (result: CommandResult) => void,
	signal: AbortSignal,
): Promise<void> {
	const deadline = Date.now() + task.clocks.setupS * 1000;
	for (const command of task.setup) {
		const timeoutMs = Math.max(1, deadline - Date.now());
		const result = await runCommand(box, command, {
			cwd: WORKDIR.replace(HOME, box.home),
			timeoutMs,
			signal,
		});
		onSetup(result);
		if (result.exitCode === 0) continue;
		const said = (result.stderr || result.stdout).trim().split("\n").at(-1) ?? "";
		const message = `setup command ${JSON.stringify(command)} ended with ${result.exitCode}: ${said}`;
		throw new RolloutError("task", "setup_failed", message);
	}
}
