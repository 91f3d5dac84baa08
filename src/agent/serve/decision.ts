import type { Ask, PermissionDecision, QuestionDecision } from "../agent.ts";

export type Decision = PermissionDecision | QuestionDecision;

/** What a refused model reads when nobody gave a reason: without any, its turn would end. */
const REFUSED = "This was not permitted. Go on without it, or say what you would need it for.";

export function messageFor(decision: PermissionDecision & { behavior: "deny" }): string | undefined {
	return decision.endTurn ? undefined : decision.message || REFUSED;
}

export function toReply(decision: Decision): "once" | "reject" | "answer" {
	if ("answers" in decision) return decision.answers === null ? "reject" : "answer";
	return decision.behavior === "allow" ? "once" : "reject";
}

export function toDenial(ask: Ask, by: string, message = REFUSED): Decision {
	return ask.kind === "question" ? { answers: null, by } : { behavior: "deny", by, message };
}
