import type { ChatMessage, ChatRequest } from "./chat.ts";
import { textOf, toolNames } from "./chat.ts";
import { CHEATS } from "./cheats.ts";
import { playSolution } from "./oracle.ts";
import type { PolicyStep, Role } from "./policy.ts";

/** Why a request was made, as far as its own text tells. */
export type Occasion = "main" | "subagent" | "title" | "compaction" | "chat";

/** What a role says to one request, and the stem of its tool-call ids. */
export interface Line {
	step: PolicyStep;
	callStem: string;
}

/** Needs no memory: how far the play has come is read from the request, so retries and parallel sessions are safe. */
export function nextLine(role: Role, request: ChatRequest): Line {
	const occasion = occasionOf(role, request);
	if (occasion === "title") return { step: { text: `Solving ${role.task.id}` }, callStem: "title" };
	if (occasion === "compaction") return { step: { text: summaryOf(role) }, callStem: "summary" };
	if (occasion === "subagent") {
		const steps = role.subagentSteps ?? [{ text: "I looked into it; there is nothing to add." }];
		return pick(steps, "sub", request.messages);
	}
	return pick(role.steps ?? stepsOf(role), "call", request.messages);
}

/**
 * OpenCode asks for titles and summaries without tools, and gives sub-agents no `task` tool. A main session whose
 * `task` tool is switched off is known by the instruction it was given.
 */
export function occasionOf(role: Role, request: ChatRequest): Occasion {
	const tools = toolNames(request);
	if (tools.length === 0) {
		const system = request.messages
			.filter((message) => message.role === "system")
			.map(textOf)
			.join("\n");
		if (system.includes("title generator")) return "title";
		if (system.includes("summarization agent")) return "compaction";
		return "chat";
	}
	if (tools.includes("task")) return "main";
	const instruction = role.task.instruction.trim();
	const isInstructed = request.messages.some(
		(message) => message.role === "user" && textOf(message).includes(instruction),
	);
	return isInstructed ? "main" : "subagent";
}

function stepsOf(role: Role): PolicyStep[] {
	if (role.policy === "noop") return [{ text: "I have nothing to do here." }];
	return CHEATS[role.policy]?.(role.task) ?? playSolution(role.task);
}

function pick(steps: readonly PolicyStep[], stem: string, messages: readonly ChatMessage[]): Line {
	const played = stepsPlayed(stem, messages);
	return { step: steps[played] ?? { text: "There is nothing left to do." }, callStem: `${stem}_${played}` };
}

/**
 * The number of assistant turns so far. A tool-call id names its step, so the count holds even after the agent has
 * summarised the beginning away. Empty assistant turns, left by broken streams, were never played.
 */
function stepsPlayed(stem: string, messages: readonly ChatMessage[]): number {
	const named = new RegExp(`^${stem}_(\\d+)_\\d+$`);
	let played = 0;
	for (const message of messages) {
		if (message.role !== "assistant") continue;
		const step = message.tool_calls
			?.map((call) => named.exec(call.id ?? "")?.[1])
			.find((id) => id !== undefined);
		if (step !== undefined) played = Number(step) + 1;
		else if (textOf(message) !== "" || message.tool_calls?.length) played += 1;
	}
	return played;
}

function summaryOf(role: Role): string {
	return `The task is ${role.task.id}. Some of its steps are done; the remaining ones follow in order.`;
}
