import type { ModelCall } from "../model/call.ts";
import type { Rollout } from "../model/rollout.ts";
import type { Step, Trajectory } from "./atif-schema.ts";
import { StepWriter } from "./atif-steps.ts";
import { isMessage } from "./breaks.ts";

export interface AtifOptions {
	/** Each step then repeats its whole prompt as ids: the file grows with the square of the turns. */
	withPromptIds?: boolean;
	/** Where the rollout's own record does not say. */
	agentVersion?: string;
}

/** One rollout as an ATIF v1.7 document; sub-agents are embedded and referred to by the tool call that started them. */
export async function toTrajectory(
	rollout: Rollout,
	calls: AsyncIterable<ModelCall>,
	options: AtifOptions = {},
): Promise<Trajectory | null> {
	const sessions = new Map<string, Session>();
	const totals = { prompt: 0, completion: 0, cached: 0, title: 0, compaction: 0 };
	for await (const call of calls) {
		totals.prompt += call.usage?.promptTokens ?? 0;
		totals.completion += call.usage?.completionTokens ?? 0;
		totals.cached += call.usage?.cachedTokens ?? 0;
		if (call.purpose === "title" || call.purpose === "compaction") totals[call.purpose]++;
		take(call, sessions, options);
	}
	const [main, ...others] = [...sessions.values()].sort(
		(a, b) => Number(a.parentId !== null) - Number(b.parentId !== null),
	);
	if (!main) return null;
	link([main, ...others], others);
	const recorded = rollout.summary?.box.agentVersion;
	const version = typeof recorded === "string" ? recorded : (options.agentVersion ?? "unknown");
	const notes = toNotes(totals);
	return {
		...document(main, version),
		final_metrics: {
			total_prompt_tokens: totals.prompt,
			total_completion_tokens: totals.completion,
			total_cached_tokens: totals.cached,
			total_steps: main.writer.steps.length,
		},
		...(others.length > 0 && { subagent_trajectories: others.map((session) => document(session, version)) }),
		...(notes !== null && { notes }),
		extra: {
			rollout_id: rollout.id,
			task_id: rollout.taskId,
			group_id: rollout.groupId,
			reward: rollout.reward,
			outcome: rollout.outcome,
		},
	};
}

interface Session {
	id: string;
	parentId: string | null;
	agentName: string | null;
	/** The first thing it was asked: how its parent's tool call is found. */
	firstAsked: string | null;
	model: string | null;
	tools: unknown[];
	writer: StepWriter;
}

function take(call: ModelCall, sessions: Map<string, Session>, options: AtifOptions): void {
	const id = call.sessionId ?? "main";
	const known = sessions.get(id);
	if (call.purpose === "compaction" && call.complete) known?.writer.compacted(textOf(call.response.message));
	if (call.purpose !== "main" && call.purpose !== "subagent") return;
	// A call that brought nothing, or that a retry replaced, is no step.
	if (call.superseded || call.response.message === null) return;
	const session = known ?? begin(id, call, options);
	sessions.set(id, session);
	session.writer.add(call);
}

function begin(id: string, call: ModelCall, options: AtifOptions): Session {
	const asked = call.request.messages.find((message) => isMessage(message) && message.role === "user");
	return {
		id,
		parentId: call.parentSessionId,
		agentName: call.agentName,
		firstAsked: isMessage(asked) ? textOf(asked) : null,
		model: call.model,
		tools: call.request.tools,
		writer: new StepWriter(options.withPromptIds ?? false),
	};
}

function document(session: Session, version: string): Trajectory {
	return {
		schema_version: "ATIF-v1.7",
		session_id: session.id,
		trajectory_id: session.id,
		agent: {
			name: "opencode",
			version,
			...(session.model !== null && { model_name: session.model }),
			...(session.tools.length > 0 && { tool_definitions: session.tools }),
			...(session.agentName !== null && { extra: { agent: session.agentName } }),
		},
		steps: session.writer.steps,
	};
}

/** The tool result that a sub-agent produced names it: found by what it was asked, or by its session id in the result. */
function link(parents: Session[], children: Session[]): void {
	for (const child of children) {
		const steps = parents.find((parent) => parent.id === child.parentId)?.writer.steps ?? [];
		for (const step of steps) {
			const result = step.observation?.results.find(
				(candidate) =>
					!candidate.subagent_trajectory_ref &&
					isAnsweredBy(step, candidate.source_call_id, candidate.content, child),
			);
			if (!result) continue;
			result.subagent_trajectory_ref = [{ trajectory_id: child.id, session_id: child.id }];
			break;
		}
	}
}

function isAnsweredBy(step: Step, callId: string | undefined, content: unknown, child: Session): boolean {
	if (typeof content === "string" && content.includes(child.id)) return true;
	const call = step.tool_calls?.find((candidate) => candidate.tool_call_id === callId);
	return child.firstAsked !== null && call?.arguments.prompt === child.firstAsked;
}

function textOf(message: unknown): string {
	const content = isMessage(message) ? message.content : null;
	if (typeof content === "string") return content;
	if (!Array.isArray(content)) return "";
	return content.map((part) => (isMessage(part) && typeof part.text === "string" ? part.text : "")).join("");
}

function toNotes({ title, compaction }: { title: number; compaction: number }): string | null {
	if (title + compaction === 0) return null;
	return `The totals include ${title} title and ${compaction} compaction calls, which are no steps.`;
}
