import { randomBytes } from "node:crypto";

export const CONVERSATION = "cnv";

/** Rollouts and conversations are stored, queued and hosted alike; their ids tell them apart. */
export type Kind = "rollout" | "conversation";

export function kindOf(id: string): Kind {
	return id.startsWith(`${CONVERSATION}_`) ? "conversation" : "rollout";
}

export function newConversationId(): string {
	return newId(CONVERSATION);
}

/** `prefix_` + 10 characters of time + 12 of chance: sorts by creation, never collides, safe in paths and URLs. */
export function newId(prefix: string, now: number = Date.now()): string {
	return `${prefix}_${now.toString(36).padStart(9, "0")}${randomBytes(6).toString("hex")}`;
}
