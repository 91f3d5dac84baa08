import type { ModelCall } from "../model/call.ts";
import type { BreakReason } from "../model/sample.ts";

/** What has to be remembered of a branch to explain a break: its last call, and where it spoke. */
export interface Lineage {
	messages: unknown[];
	tools: unknown[];
	reply: Message | null;
	promptLength: number;
	/** Where sampled tokens lie in the branch, how far the reasoning in them reaches, and where the tool calls begin. */
	spans: { start: number; end: number; reasoningEnd: number; toolCallsStart: number }[];
	/** The session was compacted after the branch's last call. */
	compacted: boolean;
}

type Message = Record<string, unknown>;

const STEP_LIMIT_NOTE = "CRITICAL - MAXIMUM STEPS REACHED";

/** Why `call` does not go on with the branch, whose tokens differ from the call's prompt at `position`. */
export function reasonFor(call: ModelCall, branch: Lineage, position: number): BreakReason {
	const { messages, tools } = call.request;
	const before = branch.reply === null ? branch.messages : [...branch.messages, branch.reply];
	const at = before.findIndex((message, index) => !isReplayed(message, messages[index]));
	if (isStepLimitNote(branch.messages.at(-1)) && at >= branch.messages.length - 1) return "step_limit_note";
	if (position === branch.promptLength && call.promptIds.length === position) return "resampled";
	if (at < 0 && !sameJson(tools, branch.tools)) return "tools_changed";
	if (at < 0) return reasonInTokens(messages, before, branch, position);
	if (branch.compacted) return "compaction";
	return reasonInMessages(messages[at], before[at], sameJson(tools, branch.tools), messages[at + 1]);
}

/** The messages say the same; only their tokens differ. */
function reasonInTokens(
	messages: unknown[],
	before: unknown[],
	branch: Lineage,
	position: number,
): BreakReason {
	if (isStepLimitNote(messages.at(-1))) return "step_limit_note";
	const span = branch.spans.find(({ start, end }) => position >= start && position < end);
	if (span && position < span.reasoningEnd) return "dropped_reasoning";
	// What differs before a call, or outside of what was sampled, no spelling of its arguments explains.
	if (!span || position < span.toolCallsStart) return "retokenised";
	const respelled = before.some((message, index) => {
		const [old, now] = [toolCallsOf(message), toolCallsOf(messages[index])];
		return old.some((toolCall, which) => argumentsOf(toolCall) !== argumentsOf(now[which]));
	});
	return respelled ? "reserialised_tool_call" : "retokenised";
}

/** `now` stands where `before` was expected. */
function reasonInMessages(now: unknown, before: unknown, sameTools: boolean, next: unknown): BreakReason {
	if (isEmptyAssistant(now) && (next === undefined || isReplayed(before, next))) return "retry_leftover";
	if (saysTheSame(before, now)) return "dropped_reasoning";
	if (!sameTools) return "tools_changed";
	if (roleOf(before) === "system" || roleOf(before) === "developer") return "system_changed";
	return "history_changed";
}

/**
 * Says `now` what `before` said? Agents re-serialise: call arguments count as JSON, absent and empty reasoning are
 * alike, null content is empty, and keys of transport are skipped.
 */
function isReplayed(before: unknown, now: unknown): boolean {
	if (!isMessage(before) || !isMessage(now)) return before === now;
	return sameJson(essence(before), essence(now));
}

/** The same but for reasoning, which agents may drop from older turns. */
export function saysTheSame(before: unknown, now: unknown): boolean {
	return isReplayed(withoutReasoning(before), withoutReasoning(now));
}

function essence(message: Message) {
	return {
		role: message.role,
		content: textOf(message.content),
		reasoning: reasoningOf(message),
		toolCallId: message.tool_call_id ?? null,
		toolCalls: toolCallsOf(message).map((toolCall) => ({
			id: toolCall.id ?? null,
			name: functionOf(toolCall).name ?? null,
			arguments: canonical(argumentsOf(toolCall)),
		})),
	};
}

function textOf(content: unknown): unknown {
	if (content === null || content === undefined) return "";
	if (!Array.isArray(content)) return content;
	const onlyText = content.every((part) => isMessage(part) && part.type === "text");
	return onlyText ? content.map((part) => part.text).join("") : content;
}

export function reasoningOf(message: Message): string {
	const reasoning = message.reasoning_content ?? message.reasoning;
	return typeof reasoning === "string" ? reasoning : "";
}

function withoutReasoning(message: unknown): unknown {
	return isMessage(message) ? { ...message, reasoning: "", reasoning_content: "" } : message;
}

export function toolCallsOf(message: unknown): Message[] {
	const calls = isMessage(message) ? message.tool_calls : undefined;
	return Array.isArray(calls) ? calls.filter(isMessage) : [];
}

function functionOf(toolCall: Message): Message {
	return isMessage(toolCall.function) ? toolCall.function : {};
}

/** Of the function that is called. */
export function nameOf(toolCall: Message): string {
	const { name } = functionOf(toolCall);
	return typeof name === "string" ? name : "";
}

function argumentsOf(toolCall: Message | undefined): string {
	const value = toolCall && functionOf(toolCall).arguments;
	return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

/** Arguments with sorted keys and no spacing; text that is no JSON stays as it is. */
function canonical(text: string): string {
	try {
		return JSON.stringify(sorted(JSON.parse(text)));
	} catch {
		return text;
	}
}

function sorted(value: unknown): unknown {
	if (Array.isArray(value)) return value.map(sorted);
	if (!isMessage(value)) return value;
	return Object.fromEntries(
		Object.keys(value)
			.sort()
			.map((key) => [key, sorted(value[key])]),
	);
}

export function isStepLimitNote(message: unknown): boolean {
	if (!isMessage(message) || message.role !== "assistant") return false;
	const text = textOf(message.content);
	return typeof text === "string" && text.startsWith(STEP_LIMIT_NOTE);
}

/** What a broken stream leaves behind in the agent's history. */
export function isEmptyAssistant(message: unknown): boolean {
	if (!isMessage(message) || message.role !== "assistant") return false;
	return textOf(message.content) === "" && toolCallsOf(message).length === 0;
}

function roleOf(message: unknown): unknown {
	return isMessage(message) ? message.role : undefined;
}

function sameJson(a: unknown, b: unknown): boolean {
	return JSON.stringify(a) === JSON.stringify(b);
}

export function isMessage(value: unknown): value is Message {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}
