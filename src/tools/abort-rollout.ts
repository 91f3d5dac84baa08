import { z } from "zod";
import type { Paddock } from "../paddock.ts";
import { ById, type Tool, tool, UNKNOWN_ID } from "./tools.ts";

const Aborted = z.object({ rollout_id: z.string(), aborted: z.boolean(), reason: z.string().optional() });

export function abortRollout(paddock: Paddock): Tool {
	return tool({
		name: "abort_rollout",
		title: "Stop a rollout",
		description: "Stops token generation at once, then unwinds; what was captured is kept in the result.",
		input: ById,
		output: Aborted,
		isLong: false,
		readOnly: false,
		async run({ rollout_id }) {
			const ids = await paddock.abort({ id: rollout_id });
			if (ids.length > 0) return { rollout_id, aborted: true };
			const rollout = await paddock.row(rollout_id);
			const reason =
				rollout === null ? UNKNOWN_ID : `it has ended already: ${rollout.outcome ?? rollout.status}`;
			return { rollout_id, aborted: false, reason };
		},
	});
}
