import { z } from "zod";
import type { Paddock } from "../paddock.ts";
import { ById, type Tool, ToolStatus, tool, toToolStatus, UNKNOWN_ID } from "./tools.ts";

const Messages = z.object({
	rollout_id: z.string(),
	status: ToolStatus,
	serve_session_id: z.string().nullable(),
	messages: z.array(z.object({ info: z.record(z.string(), z.unknown()), parts: z.array(z.unknown()) })),
	note: z.string().nullable().describe("Why there is nothing yet"),
	error: z.string().nullable(),
});

export function getMessages(paddock: Paddock): Tool {
	return tool({
		name: "get_messages",
		title: "What the agent said and did",
		description: "The transcript in OpenCode's own message shape, live and after the end.",
		input: ById,
		output: Messages,
		isLong: false,
		readOnly: true,
		async run({ rollout_id }) {
			const [rollout, transcript] = [await paddock.row(rollout_id), await paddock.messages(rollout_id)];
			if (rollout === null || transcript === null) return { rollout_id, ...UNKNOWN };
			const { sessionId: serve_session_id, messages, note } = transcript;
			return { rollout_id, status: toToolStatus(rollout), serve_session_id, messages, note, error: null };
		},
	});
}

const UNKNOWN = {
	status: "unknown" as const,
	serve_session_id: null,
	messages: [],
	note: null,
	error: UNKNOWN_ID,
};
