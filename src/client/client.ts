import type { z } from "zod";
import {
	type AgentCreate,
	addAgent,
	changeAgent,
	getAgent,
	getAgentLog,
	listAgents,
	removeAgent,
	startAgent,
	stopAgent,
} from "../api/agents.ts";
import { answerPermission, answerQuestion, interruptRollout, sendMessage } from "../api/commands.ts";
import {
	type ApiKeyCreate,
	addCredential,
	addLogin,
	freeCredential,
	getCredential,
	type LoginCreate,
	listCredentials,
	purgeCredentials,
	removeCredential,
	verifyCredential,
} from "../api/credentials.ts";
import {
	abortBatch,
	abortGroup,
	type BatchCreate,
	createBatch,
	getBatch,
	getBatchTokens,
	getGroup,
	getGroupFigures,
	getGroupTokens,
	listBatches,
	listGroups,
} from "../api/groups.ts";
import { checkHost, listHosts } from "../api/hosts.ts";
import {
	getHealth,
	getStatus,
	listEndpoints,
	listExamples,
	listSandboxes,
	listWorkers,
	setWeights,
} from "../api/machine.ts";
import {
	abortRollout,
	createRollouts,
	finalizeRollout,
	getResult,
	getRollout,
	getStatistics,
	listRollouts,
	type RolloutCreate,
} from "../api/rollouts.ts";
import type { BodyInput, Query } from "../api/route.ts";
import {
	exportRollouts,
	getBlob,
	getCalls,
	getCertificate,
	getDiff,
	getFile,
	getMessages,
	getSamples,
	listFiles,
	NDJSON,
	type RolloutSample,
} from "../api/trace.ts";
import type { ModelCall } from "../model/call.ts";
import type { Rollout, RolloutRow } from "../model/rollout.ts";
import { conversations } from "./conversations.ts";
import { type FollowOptions, followEvents } from "./events.ts";
import { newKey } from "./key.ts";
import { readNdjson } from "./lines.ts";
import { type ClientOptions, callRoute, type Input, type Loose, openRoute } from "./request.ts";
import { type RetryOptions, retried } from "./retry.ts";

export { ApiError, type ClientOptions } from "./request.ts";
export { type RetryOptions, retried } from "./retry.ts";

export type Client = ReturnType<typeof createClient>;

/** The verbs of a Paddock server, typed by the same route values that it serves. */
export function createClient(options: ClientOptions) {
	return {
		...rollouts(options),
		...trace(options),
		...commands(options),
		...conversations(options),
		...groups(options),
		...machine(options),
		...credentials(options),
		...agents(options),
	};
}

type Signal = { signal?: AbortSignal | undefined };

function rollouts(options: ClientOptions) {
	return {
		/**
		 * Waits out lost connections and a full queue. Without an idempotency key one is made, so that a repeat is harmless.
		 */
		submit(body: z.input<typeof RolloutCreate>, retry: RetryOptions = {}) {
			const { signal } = retry;
			const idempotencyKey = body.idempotencyKey ?? newKey();
			const send = () => callRoute(options, createRollouts, { body: { ...body, idempotencyKey }, signal });
			return retried(send, retry);
		},
		list: (query: Loose<Query<typeof listRollouts>> = {}) => callRoute(options, listRollouts, { query }),
		/** All of them, page by page. */
		async *listAll(query: Loose<Query<typeof listRollouts>> = {}): AsyncGenerator<RolloutRow> {
			let cursor = query.cursor;
			do {
				const page = await callRoute(options, listRollouts, { query: { ...query, cursor } });
				yield* page.items;
				cursor = page.next ?? undefined;
			} while (cursor);
		},
		/** How finished rollouts went over time. */
		statistics: (query: Loose<Query<typeof getStatistics>> = {}) =>
			callRoute(options, getStatistics, { query }),
		get: (id: string) => callRoute(options, getRollout, { params: { id } }),
		result: (id: string) => callRoute(options, getResult, { params: { id } }),
		finalize: (id: string, waitS?: number, { signal }: Signal = {}) =>
			callRoute(options, finalizeRollout, { params: { id }, query: { wait_s: waitS }, signal }),
		abort: (id: string) => callRoute(options, abortRollout, { params: { id } }),
		/** The rollout once it is done; survives lost connections and restarts of the server. */
		async wait(id: string, follow: FollowOptions = {}): Promise<Rollout> {
			for await (const event of followEvents(options, id, follow)) if (event.type === "rollout-end") break;
			return await callRoute(options, getRollout, { params: { id } });
		},
	};
}

function trace(options: ClientOptions) {
	return {
		/** Live, every event once and in order, reconnecting by itself. */
		events: (id: string, follow: FollowOptions = {}) => followEvents(options, id, follow),
		messages: (id: string) => callRoute(options, getMessages, { params: { id } }),
		async *calls(id: string, { signal }: Signal = {}): AsyncGenerator<ModelCall> {
			const input = { params: { id }, accept: NDJSON, signal };
			yield* readNdjson<ModelCall>(await openRoute(options, getCalls, input));
		},
		async *samples(id: string, query: Loose<Query<typeof getSamples>> = {}): AsyncGenerator<RolloutSample> {
			yield* readNdjson<RolloutSample>(await openRoute(options, getSamples, { params: { id }, query }));
		},
		/** The stream of an export, in any format; reading it to its end proves that it is whole. */
		async export(query: Loose<Query<typeof exportRollouts>> = {}): Promise<ReadableStream<Uint8Array>> {
			return (await openRoute(options, exportRollouts, { query })).body!;
		},
		certificate: (id: string, query: Loose<Query<typeof getCertificate>> = {}) =>
			callRoute(options, getCertificate, { params: { id }, query }),
		files: (id: string) => callRoute(options, listFiles, { params: { id } }),
		async blob(id: string, name: string): Promise<Uint8Array> {
			return new Uint8Array(
				await (await openRoute(options, getBlob, { params: { id, name } })).arrayBuffer(),
			);
		},
		/** One text file of the workdir, as it was at the end. */
		file: async (id: string, path: string) =>
			await (await openRoute(options, getFile, { params: { id }, query: { path } })).text(),
		diff: async (id: string) => await (await openRoute(options, getDiff, { params: { id } })).text(),
	};
}

function commands(options: ClientOptions) {
	return {
		send: (id: string, text: string, by?: string) =>
			callRoute(options, sendMessage, { params: { id }, body: { text, by } }),
		answerPermission: (id: string, requestId: string, body: BodyInput<typeof answerPermission>) =>
			callRoute(options, answerPermission, { params: { id, requestId }, body }),
		interrupt: (id: string, body: BodyInput<typeof interruptRollout>) =>
			callRoute(options, interruptRollout, { params: { id }, body }),
		answerQuestion: (id: string, requestId: string, body: BodyInput<typeof answerQuestion>) =>
			callRoute(options, answerQuestion, { params: { id, requestId }, body }),
	};
}

function groups(options: ClientOptions) {
	return {
		group: (id: string) => callRoute(options, getGroup, { params: { id } }),
		groupTokens: (id: string) => callRoute(options, getGroupTokens, { params: { id } }),
		batchTokens: (id: string) => callRoute(options, getBatchTokens, { params: { id } }),
		/** Advantage, length, mean logprob of the members, and where they part. */
		groupFigures: (id: string) => callRoute(options, getGroupFigures, { params: { id } }),
		groups: (query: Input<typeof listGroups>["query"] = {}) => callRoute(options, listGroups, { query }),
		abortGroup: (id: string) => callRoute(options, abortGroup, { params: { id } }),
		/** All of it or nothing; waits like `submit`. */
		submitBatch(body: z.input<typeof BatchCreate>, retry: RetryOptions = {}) {
			const { signal } = retry;
			const idempotencyKey = body.idempotencyKey ?? newKey();
			const send = () => callRoute(options, createBatch, { body: { ...body, idempotencyKey }, signal });
			return retried(send, retry);
		},
		batch: (id: string) => callRoute(options, getBatch, { params: { id } }),
		batches: (query: Input<typeof listBatches>["query"] = {}) => callRoute(options, listBatches, { query }),
		abortBatch: (id: string) => callRoute(options, abortBatch, { params: { id } }),
	};
}

function machine(options: ClientOptions) {
	return {
		health: () => callRoute(options, getHealth),
		status: () => callRoute(options, getStatus),
		workers: () => callRoute(options, listWorkers),
		endpoints: () => callRoute(options, listEndpoints),
		setWeights: (name: string, version: string) =>
			callRoute(options, setWeights, { params: { name }, body: { version } }),
		examples: () => callRoute(options, listExamples),
		sandboxes: () => callRoute(options, listSandboxes),
	};
}

/** No answer holds a secret. */
function credentials(options: ClientOptions) {
	return {
		credentials: () => callRoute(options, listCredentials),
		credential: (label: string) => callRoute(options, getCredential, { params: { label } }),
		addApiKey: (body: z.input<typeof ApiKeyCreate>) => callRoute(options, addCredential, { body }),
		hosts: () => callRoute(options, listHosts),
		checkHost: (name: string) => callRoute(options, checkHost, { params: { name } }),
		addLogin: (body: z.input<typeof LoginCreate>) => callRoute(options, addLogin, { body }),
		verifyCredential: (label: string) => callRoute(options, verifyCredential, { params: { label } }),
		freeCredential: (label: string, newest = false) =>
			callRoute(options, freeCredential, { params: { label }, body: { newest } }),
		purgeCredentials: (body: { pool?: string; force?: boolean } = {}) =>
			callRoute(options, purgeCredentials, { body }),
		removeCredential: (label: string, force = false) =>
			callRoute(options, removeCredential, { params: { label }, query: { force: force ? "true" : "false" } }),
	};
}

/** Agents that are kept on the server's machine, outside any box. */
function agents(options: ClientOptions) {
	return {
		agents: () => callRoute(options, listAgents),
		agent: (name: string) => callRoute(options, getAgent, { params: { name } }),
		addAgent: (body: z.input<typeof AgentCreate>) => callRoute(options, addAgent, { body }),
		changeAgent: (name: string, body: BodyInput<typeof changeAgent>) =>
			callRoute(options, changeAgent, { params: { name }, body }),
		startAgent: (name: string) => callRoute(options, startAgent, { params: { name } }),
		stopAgent: (name: string) => callRoute(options, stopAgent, { params: { name } }),
		agentLog: (name: string) => callRoute(options, getAgentLog, { params: { name } }),
		removeAgent: (name: string) => callRoute(options, removeAgent, { params: { name } }),
	};
}
