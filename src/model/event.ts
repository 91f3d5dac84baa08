import { z } from "zod";
import { CallSummary } from "./call.ts";
import { Failure, Outcome } from "./failure.ts";

/** The steps of the story, in order. */
export const Phase = z
	.enum(["queued", "create", "setup", "agent", "verify", "collect", "done"])
	.meta({ id: "Phase" });
export type Phase = z.infer<typeof Phase>;

export const CommandResult = z
	.object({
		cmd: z.string(),
		exitCode: z.int().describe("128 + signal when killed; -1 when it could not run or timed out"),
		stdout: z.string().describe("The last 4,000 characters"),
		stderr: z.string().describe("The last 4,000 characters"),
		durationS: z.number(),
	})
	.meta({ id: "CommandResult" });
export type CommandResult = z.infer<typeof CommandResult>;

/** Which of the task's commands begins: `setup 2/5: pip install …`. */
const commandStart = {
	step: z.int().describe("From 1"),
	of: z.int(),
	cmd: z.string().describe("The first 500 characters"),
};

const event = <T extends string, S extends z.ZodRawShape>(type: T, shape: S) =>
	z.object({ type: z.literal(type), ...shape });

/** Which session asked; a sub-agent has one of its own. */
const asker = { sessionId: z.string().optional(), isChild: z.boolean().optional() };

/** What can happen in a rollout. The event log is the one source for every display and for recovery. */
export const EventBody = z
	.discriminatedUnion("type", [
		event("rollout-queued", { taskId: z.string() }),
		event("rollout-start", { attempt: z.int(), worker: z.string() }),
		event("conversation-queued", {}),
		event("conversation-start", { attempt: z.int(), worker: z.string() }),
		event("conversation-reopen", { by: z.string() }),
		event("phase-start", { phase: Phase }),
		event("sandbox-open", { sandboxId: z.string(), backend: z.string(), warm: z.boolean() }),
		event("setup-start", commandStart),
		event("setup-end", { result: CommandResult }),
		event("session-start", { sessionId: z.string() }),
		event("agent-event", {
			name: z.string().describe("OpenCode's own event type"),
			properties: z.record(z.string(), z.unknown()),
		}),
		event("call-start", { index: z.int(), purpose: z.string() }),
		event("call-end", { call: CallSummary }),
		event("permission-ask", {
			requestId: z.string(),
			permission: z.string().describe("Which tool"),
			patterns: z.array(z.string()),
			input: z.record(z.string(), z.unknown()).optional().describe("What the tool was about to do"),
			...asker,
		}),
		event("permission-end", {
			requestId: z.string(),
			reply: z.string().describe("once, reject; unknown when it was answered elsewhere"),
			by: z
				.string()
				.describe("Who decided: rule, policy, a person; or deadline, interrupt, ghost, elsewhere, close"),
			message: z.string().optional().describe("What the model reads of a denial"),
		}),
		event("permission-always", {
			requestId: z.string(),
			by: z.string(),
			permission: z.string(),
			patterns: z
				.array(z.string())
				.describe("What is allowed from now on without asking, also when it is opened again"),
		}),
		event("question-ask", { requestId: z.string(), questions: z.array(z.unknown()), ...asker }),
		event("question-end", { requestId: z.string(), by: z.string(), reply: z.string().optional() }),
		event("message-sent", {
			text: z.string(),
			by: z.string(),
			messageId: z.string().optional().describe("OpenCode's own"),
			id: z.string().optional().describe("As its sender called it"),
			again: z.boolean().optional().describe("Said once more to an agent that had forgotten it"),
		}),
		event("turn-end", {
			messageId: z.string().describe("The message it began with; OpenCode's own"),
			ended: z.enum(["answered", "failed", "interrupted", "unanswered"]),
			text: z.string().describe("The last words, shortened"),
			error: z.object({ code: z.string(), message: z.string() }).nullable(),
		}),
		event("state-saved", { sizeBytes: z.int().describe("History and workdir, as they are kept") }),
		event("state-restored", { messages: z.int() }),
		event("deliverable", {
			path: z.string().describe("In the workdir"),
			sizeBytes: z.int(),
			sha256: z.string(),
		}),
		event("after-start", commandStart),
		event("after-end", { result: CommandResult }),
		event("interrupted", { by: z.string() }),
		event("model-set", { model: z.string(), by: z.string() }),
		event("agent-end", { outcome: Outcome, exitCode: z.int().nullable() }),
		event("verify-start", commandStart),
		event("verify-end", { result: CommandResult }),
		event("reward", { reward: z.number().nullable() }),
		event("teardown-start", {}),
		event("note", { text: z.string() }),
		event("attempt-failed", { attempt: z.int(), failure: Failure }),
		event("rollout-end", {
			outcome: Outcome,
			reward: z.number().nullable(),
			failure: Failure.nullable(),
			attempt: z.int(),
		}),
		event("conversation-end", {
			reason: z.string().describe("asked, idle, lifetime, budget, failed"),
			failure: Failure.nullable(),
			attempt: z.int(),
		}),
	])
	.meta({ id: "EventBody" });
export type EventBody = z.infer<typeof EventBody>;

export const RolloutEvent = z
	.object({
		rolloutId: z.string(),
		seq: z.int().describe("From 1, gapless within the rollout"),
		at: z.number(),
	})
	.and(EventBody)
	.meta({ id: "RolloutEvent" });
export type RolloutEvent = z.infer<typeof RolloutEvent>;

/** A setup command is about to run, or has. */
export type SetupEvent = Extract<EventBody, { type: "setup-start" | "setup-end" }>;

/** What is told of each command before it runs. */
export function toStart(cmd: string, index: number, of: number): { step: number; of: number; cmd: string } {
	return { step: index + 1, of, cmd: cmd.slice(0, 500) };
}
