import type { ModelCall } from "../../model/call.ts";
import type { CommandResult } from "../../model/event.ts";
import type { Rollout } from "../../model/rollout.ts";
import type { Certificate } from "../../model/sample.ts";
import { modelNameOf } from "../model-name.ts";
import { plural, showBytes, showCount, showReward, showSeconds, showTime } from "../terminal/figures.ts";
import { cut, oneLine, printable } from "../terminal/style.ts";
import { layOut } from "../terminal/table.ts";

/** A titled piece of `paddock show`. */
export interface Part {
	title: string | null;
	lines: string[];
}

export function headPart(rollout: Rollout, certificate: Certificate): Part {
	const { failure } = rollout;
	const facts: [string, string][] = [
		["rollout", `${rollout.id}${rollout.groupId === null ? "" : `  (group ${rollout.groupId})`}`],
		["task", rollout.taskId],
		["reward", showReward(rollout.reward)],
		["outcome", rollout.outcome ?? `${rollout.status}, ${rollout.phase}`],
		...(failure === null
			? []
			: [["failure", `${failure.message} (${failure.boundary}, ${failure.code})`] as [string, string]]),
		["model", modelNameOf(rollout.request.endpoint)],
		["sandbox", sandboxOf(rollout)],
		["created", showTime(rollout.createdAt)],
		["time", timeOf(rollout)],
		[
			"tokens",
			`${showCount(rollout.promptTokens)} in + ${showCount(rollout.completionTokens)} out, ${plural(rollout.calls, "call")}`,
		],
		...(rollout.attempt > 1 ? [["attempt", String(rollout.attempt)] as [string, string]] : []),
		["trainable", trainableOf(rollout, certificate)],
		...continuityOf(rollout, certificate),
	];
	return { title: null, lines: facts.map(([name, value]) => `${name.padEnd(11)} ${oneLine(value)}`) };
}

function trainableOf(rollout: Rollout, certificate: Certificate): string {
	if (rollout.status !== "done") return "not known before the end";
	if (!certificate.trainable) return `no: ${certificate.reasons.join("; ")}`;
	return `yes: ${plural(certificate.trainedTokens, "exact token")} in ${plural(certificate.continuity.samples, "sample")}`;
}

/** How much of what was sampled is in one piece, and where it is not, why. */
function continuityOf(rollout: Rollout, certificate: Certificate): [string, string][] {
	const { continuity, trainedTokens, mainShare } = certificate;
	if (rollout.status !== "done" || trainedTokens === 0) return [];
	const broke = Object.values(continuity.breaks).reduce((sum, count) => sum + count, 0);
	const later = continuity.wentOn + broke;
	const forks = counted(continuity.breaks);
	const anew = counted(continuity.plain);
	return [
		["main share", `${percent(mainShare)} of the tokens to train on are in the main agent's largest sample`],
		[
			"continuity",
			later === 0
				? "no call had one before it"
				: `${continuity.wentOn} of ${plural(later, "later call")} went on${continuity.stitched > 0 ? ` (${continuity.stitched} stitched)` : ""}${forks === "" ? "" : `; forks: ${forks}`}`,
		],
		...(anew === "" ? [] : [["rendered", `anew: ${anew}`] as [string, string]]),
	];
}

function counted(counts: Record<string, number>): string {
	return Object.entries(counts)
		.map(([why, count]) => `${why} (${count})`)
		.join(", ");
}

/** Never 100 % of less than all. */
function percent(share: number): string {
	return `${Math.floor(share * 1000) / 10} %`;
}

function sandboxOf({ request, summary }: Rollout): string {
	const warm = summary?.box.warm === true ? ", taken warm" : "";
	return `${request.sandbox}${summary === null ? "" : ` ${summary.sandboxId}`}${warm}`;
}

function timeOf({ summary, startedAt, finishedAt }: Rollout): string {
	if (startedAt === null) return "not started";
	const wall = showSeconds(((finishedAt ?? Date.now()) - startedAt) / 1000);
	const phases = Object.entries(summary?.timings ?? {}).map(([phase, s]) => `${phase} ${showSeconds(s)}`);
	return phases.length === 0 ? wall : `${wall}  (${phases.join(", ")})`;
}

/** Commands that failed show what they said. */
export function resultsPart(title: string, results: readonly CommandResult[]): Part {
	const lines = results.flatMap((result) => {
		const ok = result.exitCode === 0;
		const head = `  ${ok ? "ok    " : "failed"}  ${showSeconds(result.durationS).padStart(7)}  ${cut(printable(result.cmd).replaceAll("\n", "; "), 100)}`;
		if (ok) return [head];
		const said = printable(`${result.stdout}\n${result.stderr}`).trim();
		const tail = said === "" ? [] : said.split("\n").slice(-10);
		return [`${head}  (exit code ${result.exitCode})`, ...tail.map((line) => `            ${line}`)];
	});
	return { title, lines };
}

export function callsPart(calls: readonly string[][]): Part {
	if (calls.length === 0) return { title: "Calls", lines: [] };
	const table = layOut(
		[
			{ title: "  #", align: "right" },
			{ title: "purpose" },
			{ title: "finish" },
			{ title: "in", align: "right" },
			{ title: "out", align: "right" },
			{ title: "exact ids", align: "right" },
			{ title: "first byte", align: "right" },
			{ title: "time", align: "right" },
			{ title: "problem" },
		],
		calls,
	);
	return { title: "Calls", lines: table };
}

/** One line of the table; the call itself, with all its messages, need not be kept. */
export function toCallRow(call: ModelCall): string[] {
	return [
		String(call.index + 1),
		call.purpose,
		oneLine(call.response.finishReason ?? "–"),
		showCount(call.usage?.promptTokens ?? call.promptIds.length),
		showCount(call.usage?.completionTokens ?? call.completionIds.length),
		call.completionIds.length === 0 ? "none" : showCount(call.completionIds.length),
		call.firstByteMs === null ? "–" : `${Math.round(call.firstByteMs)} ms`,
		call.lastByteMs === null ? "–" : `${Math.round(call.lastByteMs)} ms`,
		problemOf(call),
	];
}

function problemOf(call: ModelCall): string {
	if (call.error !== null) return oneLine(`${call.error.code}: ${call.error.message}`);
	return call.superseded ? "repeated later" : call.complete ? "" : "cut off";
}

export function filesPart(rollout: Rollout): Part {
	const files = rollout.summary?.files ?? [];
	const shown = files
		.slice(0, 20)
		.map((file) => `  ${showBytes(file.sizeBytes).padStart(10)}  ${oneLine(file.path)}`);
	if (files.length > shown.length) shown.push(`  and ${files.length - shown.length} more`);
	return { title: "Files in the workdir", lines: shown };
}
