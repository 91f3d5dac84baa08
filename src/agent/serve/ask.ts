import { shorten } from "../../model/shorten.ts";
import type { Ask } from "../agent.ts";
import { isRecord } from "./client.ts";

/** An ask as it comes out of a box: every field is believed only in its shape, and only so far. */
export function toAsk(kind: Ask["kind"], properties: Record<string, unknown>, isChild: boolean): Ask {
	const { id, sessionID } = properties;
	const common = { id: String(id), sessionId: String(sessionID), isChild };
	if (kind === "question") {
		const { questions } = properties;
		return { kind, ...common, questions: Array.isArray(questions) ? (shorten(questions) as unknown[]) : [] };
	}
	const { permission, metadata, patterns, always } = properties;
	return {
		kind,
		...common,
		tool: typeof permission === "string" ? permission.slice(0, 200) : "",
		input: isRecord(metadata) ? (shorten(metadata) as Record<string, unknown>) : {},
		patterns: toStrings(patterns),
		always: toStrings(always),
	};
}

function toStrings(value: unknown): string[] {
	if (!Array.isArray(value)) return [];
	return (shorten(value) as unknown[]).filter((entry) => typeof entry === "string");
}
