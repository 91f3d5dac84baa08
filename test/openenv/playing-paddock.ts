import type { Config } from "../../src/config.ts";
import { openMachine } from "../../src/machine.ts";
import type { ModelCall } from "../../src/model/call.ts";
import type { EventBody } from "../../src/model/event.ts";
import type { Rollout } from "../../src/model/rollout.ts";
import type { Store } from "../../src/store/store.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";

export interface PlayingPaddock extends IdlePaddock {
	/** The id of the first rollout, once its agent works. */
	readonly working: Promise<string>;
}

/**
 * The real Paddock with its real queue, whose machine plays rollouts instead of running them: one whose instruction
 * says "hang" works until it is aborted, any other makes one model call and earns a reward of 1. What a real one would
 * log of its commands is logged.
 */
export async function openPlayingPaddock(overrides: Partial<Config> = {}): Promise<PlayingPaddock> {
	const working = Promise.withResolvers<string>();
	const paddock = await openIdlePaddock(
		{ concurrency: 8, ...overrides },
		{
			openMachine: (options) => ({
				...openMachine(options),
				async start() {
					return async ({ rolloutId }) => {
						await play(options.store, rolloutId, working.resolve);
						return "done";
					};
				},
			}),
		},
	);
	const worker = await paddock.work({ capacity: 64 });
	return {
		...paddock,
		working: working.promise,
		async [Symbol.asyncDispose]() {
			const { items } = await paddock.list({}, { limit: 500 });
			for (const { id } of items) await paddock.abort({ id });
			await worker.drain(60_000);
			await paddock[Symbol.asyncDispose]();
		},
	};
}

async function play(store: Store, id: string, onWork: (id: string) => void): Promise<void> {
	const rollout = await store.begin(id, "player");
	if (rollout === null) return;
	const { attempt } = rollout;
	const { instruction, setup, verify } = rollout.request.task;
	await store.append(id, attempt, [
		...commands("setup", setup),
		{ type: "phase-start", phase: "agent" },
		{ type: "session-start", sessionId: `ses_${id}` },
		{ type: "call-end", call: CALL_SUMMARY },
	]);
	await store.patch(id, attempt, { calls: 1, sessionId: `ses_${id}` });
	onWork(id);
	if (instruction.includes("hang")) {
		await abortRequested(store, id);
		await store.finish(id, attempt, { outcome: "aborted", reward: null, failure: null, summary: null });
		return;
	}
	await store.append(id, attempt, [
		...commands("verify", verify),
		{ type: "reward", reward: 1 },
		{ type: "teardown-start" },
	]);
	await store.finish(id, attempt, { outcome: "completed", reward: 1, failure: null, summary: null });
}

function commands(phase: "setup" | "verify", given: readonly string[]): EventBody[] {
	const said = { exitCode: 0, stdout: "", stderr: "", durationS: 0 };
	const told = given.flatMap((cmd, index): EventBody[] => [
		{ type: `${phase}-start`, step: index + 1, of: given.length, cmd },
		{ type: `${phase}-end`, result: { cmd, ...said } },
	]);
	return [{ type: "phase-start", phase }, ...told];
}

const CALL_SUMMARY = {
	index: 0,
	purpose: "main" as const,
	sessionId: "ses_1",
	finishReason: "stop",
	promptTokens: 10,
	completionTokens: 5,
	complete: true,
	latencyMs: 12,
	error: null,
} satisfies Partial<ModelCall> & Record<string, unknown>;

export async function abortRequested(store: Store, id: string): Promise<void> {
	await until(store, id, (rollout) => rollout.abortRequested);
}

/** Resolves once the stored rollout is as wanted. */
export async function until(
	store: Store,
	id: string,
	isWanted: (rollout: Rollout) => boolean,
): Promise<Rollout> {
	const found = Promise.withResolvers<Rollout>();
	const look = () =>
		void store.get(id).then((rollout) => {
			if (rollout !== null && isWanted(rollout)) found.resolve(rollout);
		}, found.reject);
	using _ = store.watch(id, look);
	look();
	return await found.promise;
}
