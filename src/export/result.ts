import type { BlobName } from "../model/blob.ts";
import type { ModelCall } from "../model/call.ts";
import type { CommandResult } from "../model/event.ts";
import type { ProxyTurn, RolloutResult } from "../model/result.ts";
import type { Rollout } from "../model/rollout.ts";
import { TESTS_DIR, WORKDIR } from "../model/task.ts";

const TAIL_CHARS = 4_000;
const FILE_CHARS = 8_000;
const MAX_FILES = 32;
/** What engines themselves say for "no such logprob"; a number, because callers refuse null. */
const NO_LOGPROB = -9999;

/** Reads a stored result of the rollout by its name; null when there is none. */
export type ReadBlob = (name: BlobName) => Promise<Buffer | null>;

/** A rollout in the wire spelling, with the sizes that fit into one answer. */
export async function toResult(
	rollout: Rollout,
	calls: AsyncIterable<ModelCall>,
	blob: ReadBlob,
): Promise<RolloutResult> {
	const { summary } = rollout;
	const text = async (name: BlobName) => (await blob(name))?.toString("utf8");
	const verify = (summary?.verify ?? []).map(toCommandRow);
	const setup = (summary?.setup ?? []).map(toCommandRow);
	return {
		rollout_id: rollout.id,
		task_id: rollout.taskId,
		sandbox_id: summary?.sandboxId ?? "",
		reward: rollout.reward,
		outcome: rollout.outcome,
		failure: rollout.failure,
		attempt: rollout.attempt,
		agent_exit_code: summary?.agentExitCode ?? null,
		exit_code: summary?.agentExitCode ?? -1,
		wall_s: summary?.wallS ?? wallSeconds(rollout),
		mode: rollout.request.mode,
		untrainable: summary?.untrainable ?? null,
		setup_results: setup,
		verify_results: verify,
		test_exit_code: verify.find((row) => row.cmd.includes(`${TESTS_DIR}/test.sh`))?.exit_code ?? null,
		verifier_stdout: tail((await text("verifier.stdout")) ?? verify.map((row) => row.stdout).join("")),
		verifier_stderr: tail((await text("verifier.stderr")) ?? verify.map((row) => row.stderr).join("")),
		proxy_turns: await toProxyTurns(calls),
		...toFiles(rollout, await text("files.json")),
		agent_log_tail: tail((await text("agent.log")) ?? ""),
		proxy_log_tail: tail((await text("gateway.log")) ?? ""),
		install_log_tail: tail((await text("install.log")) ?? ""),
		error: toErrorSentence(rollout),
	};
}

/** The same shape for an id that nobody knows. */
export function unknownResult(id: string): RolloutResult {
	return {
		...{
			rollout_id: id,
			task_id: "",
			sandbox_id: "",
			reward: null,
			outcome: null,
			failure: null,
			attempt: 0,
		},
		...{ agent_exit_code: null, exit_code: -1, wall_s: 0, mode: "", untrainable: null, test_exit_code: null },
		...{ setup_results: [], verify_results: [], verifier_stdout: "", verifier_stderr: "", proxy_turns: [] },
		...{ files: {}, workdir_files: {}, files_extra: [] },
		...{ agent_log_tail: "", proxy_log_tail: "", install_log_tail: "", error: "no rollout has this id" },
	};
}

/** One call in the wire spelling: the three token lists have one length, and no logprob is null. */
export function toProxyTurn(call: ModelCall): ProxyTurn {
	return {
		turn: call.index,
		purpose: call.purpose,
		session_id: call.sessionId,
		parent_session_id: call.parentSessionId,
		finish_reason: call.response.finishReason,
		request: { ...call.request.params, messages: call.request.messages, tools: call.request.tools },
		response: {
			message: call.response.message,
			finish_reason: call.response.finishReason,
			usage: toWireUsage(call),
		},
		prompt_token_ids: call.promptIds,
		...toTokenColumns(call),
		latency_s: (call.lastByteMs ?? 0) / 1000,
		timestamp: call.startedAt / 1000,
		upstream_status: call.upstreamStatus,
		upstream_error: call.error && { ...call.error },
	};
}

export function toWireUsage(call: ModelCall) {
	if (!call.usage) return null;
	const { promptTokens, completionTokens, cachedTokens } = call.usage;
	return {
		prompt_tokens: promptTokens,
		completion_tokens: completionTokens,
		total_tokens: promptTokens + completionTokens,
		...(cachedTokens !== undefined && { prompt_tokens_details: { cached_tokens: cachedTokens } }),
	};
}

/** Callers zip these lists without looking: unequal lengths would shift every later logprob. */
function toTokenColumns(call: ModelCall) {
	const ids = call.completionIds;
	const length = ids.length || Math.max(call.completionTexts.length, call.logprobs.length);
	const logprob = (position: number) => {
		const value = call.logprobs[position];
		return value !== undefined && Number.isFinite(value) ? value : NO_LOGPROB;
	};
	const positions = Array.from({ length }, (_, position) => position);
	return {
		completion_tokens: positions.map(
			(at) => call.completionTexts[at] ?? (ids[at] === undefined ? "" : `token_id:${ids[at]}`),
		),
		completion_token_ids: ids,
		per_token_logps: positions.map(logprob),
	};
}

async function toProxyTurns(calls: AsyncIterable<ModelCall>): Promise<ProxyTurn[]> {
	const turns: ProxyTurn[] = [];
	for await (const call of calls) turns.push(toProxyTurn(call));
	return turns.sort((a, b) => a.turn - b.turn);
}

function toCommandRow(result: CommandResult) {
	return {
		cmd: result.cmd,
		exit_code: result.exitCode,
		stdout: tail(result.stdout),
		stderr: tail(result.stderr),
		duration_s: result.durationS,
	};
}

/**
 * `files.json` maps paths, relative to the workdir or absolute, to text. The first 32 are handed out by their absolute
 * paths; whatever is not here whole is named in `files_extra`.
 */
function toFiles(rollout: Rollout, json: string | undefined) {
	const contents = Object.entries((json ? JSON.parse(json) : {}) as Record<string, string>)
		.map(([path, content]) => [toAbsolute(path), content] as const)
		.sort(([a], [b]) => (a < b ? -1 : 1));
	const shown = contents
		.slice(0, MAX_FILES)
		.map(([path, content]) => [path, content.slice(0, FILE_CHARS)] as const);
	const whole = new Set(
		contents.slice(0, MAX_FILES).flatMap(([path, content]) => (content.length > FILE_CHARS ? [] : [path])),
	);
	const known = new Set([
		...contents.map(([path]) => path),
		...(rollout.summary?.files ?? []).map((file) => toAbsolute(file.path)),
	]);
	return {
		files: Object.fromEntries(shown),
		workdir_files: Object.fromEntries(shown.filter(([path]) => path.startsWith(`${WORKDIR}/`))),
		files_extra: [...known].filter((path) => !whole.has(path)).sort(),
	};
}

function toAbsolute(path: string): string {
	return path.startsWith("/") ? path : `${WORKDIR}/${path}`;
}

function toErrorSentence(rollout: Rollout): string | null {
	if (rollout.status !== "done")
		return `the rollout is not finished: ${rollout.status}, phase ${rollout.phase}`;
	if (rollout.failure)
		return `${rollout.failure.boundary}/${rollout.failure.code}: ${rollout.failure.message}`;
	if (rollout.outcome === "timeout") return "the agent ran out of time";
	if (rollout.outcome === "aborted") return "the rollout was aborted";
	if (rollout.outcome === "budget") return "the rollout used up its budget";
	return null;
}

function wallSeconds(rollout: Rollout): number {
	return rollout.startedAt === null || rollout.finishedAt === null
		? 0
		: (rollout.finishedAt - rollout.startedAt) / 1000;
}

function tail(text: string): string {
	return text.slice(-TAIL_CHARS);
}
