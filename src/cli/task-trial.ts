import type { SandboxName } from "../model/request.ts";
import { RolloutRequest } from "../model/request.ts";
import type { RolloutResult } from "../model/result.ts";
import type { Task } from "../model/task.ts";
import type { Workplace } from "./run/workplace.ts";
import { showReward } from "./terminal/figures.ts";

/** What became of a task's own solution, and of doing nothing. */
export interface Trial {
	oracle: Tried;
	noop: Tried;
	/** Why it cannot be trusted, as lines: the commands that failed, what they said, where to look. */
	reasons: string[];
}

interface Tried {
	rolloutId: string;
	/** Null when there was none. */
	reward: number | null;
}

export function isTrustworthy({ oracle, noop }: Trial): boolean {
	return oracle.reward === 1 && noop.reward !== null && noop.reward < 1;
}

/** Tells the rollouts as soon as they have names, so that one can look at them while they run. */
export async function tryTask(
	task: Task,
	sandbox: SandboxName,
	workplace: Workplace,
	say: (text: string) => void,
): Promise<Trial> {
	const [oracle, noop] = await Promise.all(
		(["oracle", "noop"] as const).map(async (policy) => {
			const request = RolloutRequest.parse({ task, endpoint: { type: "policy", policy }, sandbox });
			return await play(request, workplace, (id) => say(`${policy} is ${id}`));
		}),
	);
	const trial = { oracle: toTried(oracle!), noop: toTried(noop!), reasons: [] };
	return { ...trial, reasons: reasonsOf(trial, oracle!, noop!) };
}

async function play(
	request: RolloutRequest,
	workplace: Workplace,
	onSubmitted: (id: string) => void,
): Promise<RolloutResult> {
	for await (const { id } of workplace.submit([request], 1)) {
		onSubmitted(id);
		for await (const event of workplace.follow(id)) if (event.type === "rollout-end") break;
		const result = await workplace.result(id);
		if (result !== null) return result;
	}
	throw new Error(`the rollout of ${request.task.id} is gone from the store`);
}

function toTried({ rollout_id, reward }: RolloutResult): Tried {
	return { rolloutId: rollout_id, reward };
}

function reasonsOf(trial: Trial, oracle: RolloutResult, noop: RolloutResult): string[] {
	const reasons: string[] = [];
	if (trial.oracle.reward !== 1) {
		reasons.push(`Its solution did not earn 1 but ${showReward(trial.oracle.reward)}:`, ...whyNot(oracle));
	}
	if (trial.noop.reward === null) reasons.push("Doing nothing got no reward at all:", ...whyNot(noop));
	else if (trial.noop.reward >= 1)
		reasons.push("Doing nothing earns it all: no verify command fails on the untouched workdir.", look(noop));
	return reasons;
}

/** The failure, or the commands that failed with their last words. */
function whyNot(result: RolloutResult): string[] {
	const failed = [...result.setup_results, ...result.verify_results].filter((each) => each.exit_code !== 0);
	const commands = failed.flatMap((each) => [
		`  exit code ${each.exit_code}: ${each.cmd.replaceAll("\n", "; ")}`,
		...lastWords(`${each.stdout}\n${each.stderr}`),
	]);
	const failure = result.failure === null ? [] : [`  ${result.failure.message} (${result.failure.code})`];
	const outcome =
		result.outcome === "completed" || failure.length > 0 ? [] : [`  it ended by ${result.outcome}`];
	return [...failure, ...outcome, ...commands, look(result)];
}

function lastWords(text: string): string[] {
	return text
		.split("\n")
		.filter((line) => line.trim() !== "")
		.slice(-10)
		.map((line) => `      ${line}`);
}

function look({ rollout_id }: RolloutResult): string {
	return `  Look closer: paddock show ${rollout_id}`;
}
