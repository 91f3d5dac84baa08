import { z } from "zod";
import type { EventBody } from "./event.ts";

/** What a person did to a rollout while it ran. */
export const Intervention = z
	.object({
		kind: z.enum(["message", "denial", "approval", "answer", "interrupt", "model"]),
		by: z.string(),
		call: z.int().describe("How many model calls had begun before it: calls from this index on came after"),
	})
	.meta({ id: "Intervention" });
export type Intervention = z.infer<typeof Intervention>;

/** Who decides where no person does. None of them is anybody's name. */
const AUTOMATIC = new Set([
	"policy",
	"rule",
	"deadline",
	"interrupt",
	"ghost",
	"elsewhere",
	"close",
	"failure",
]);

export function isReserved(by: string): boolean {
	return AUTOMATIC.has(by.trim().toLowerCase());
}

/** Null when no person did it. Only what an agent asks can be decided without one. */
export function interventionOf(event: EventBody, call: number): Intervention | null {
	const kind = kindOf(event);
	if (kind === null || !("by" in event)) return null;
	const isEnd = event.type === "permission-end" || event.type === "question-end";
	return isEnd && AUTOMATIC.has(event.by) ? null : { kind, by: event.by, call };
}

/** An approval lets the agent do what it wanted; everything else changes what it goes on with. */
export function isSteering({ kind }: Intervention): boolean {
	return kind !== "approval";
}

function kindOf(event: EventBody): Intervention["kind"] | null {
	if (event.type === "message-sent") return "message";
	if (event.type === "interrupted") return "interrupt";
	if (event.type === "model-set") return "model";
	if (event.type === "question-end") return "answer";
	if (event.type !== "permission-end") return null;
	return event.reply === "reject" ? "denial" : "approval";
}
