import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { UsageError } from "../errors.ts";
import { AgentName } from "../model/kept-agent.ts";
import { RolloutArguments } from "./arguments.ts";
import { type RequestSurroundings, toRolloutRequest } from "./request.ts";

const { shape } = RolloutArguments;

/** Of what starts a rollout, all that says where an agent runs and with which model. */
export const conversationShape = {
	...pick(["endpoint", "base_url", "api_key", "model", "model_key", "vllm_url", "hf_token"]),
	...pick(["mode", "max_tokens_cap", "top_logprobs", "temperature", "network", "template", "sandbox"]),
	...pick(["setup", "setup_shell", "upload_files", "solution", "idempotency_key"]),
	permission: z
		.enum(["allow", "deny", "ask"])
		.nullish()
		.describe("Whether tools that change something need an `answer`. Default ask"),
	kept_agent: AgentName.nullish().describe(
		"A kept agent of the server's machine, by name, instead of an agent in a box: it has its own models, and no walls",
	),
	idle_s: z
		.number()
		.positive()
		.max(604_800)
		.nullish()
		.describe("Closed when nothing was said for so long. Default 1800"),
};

const Arguments = z.object(conversationShape);

/** The same words mean the same as for a rollout. */
export function toConversationRequest(
	{ permission, idle_s, kept_agent, ...given }: z.infer<typeof Arguments>,
	surroundings: RequestSurroundings,
): object {
	const talk = { agent: { permission: permission ?? "ask" }, ...(idle_s ? { idleS: idle_s } : {}) };
	if (kept_agent) return { keptAgent: kept_agent, ...requireNothingElse(given), ...talk };
	const spoken = RolloutArguments.parse({ ...given, idempotency_key: undefined, instruction: "-" });
	const { task, ...terms } = toRolloutRequest(spoken, surroundings).request;
	const { priority: _, maxAttempts: __, ...rest } = terms;
	return {
		...rest,
		files: task.files,
		before: task.setup,
		box: task.box,
		...talk,
		agent: { ...terms.agent, ...talk.agent },
	};
}

/** A kept agent has its own models, and no box. */
function requireNothingElse({ idempotency_key: _, ...given }: Partial<z.infer<typeof Arguments>>): object {
	const said = Object.entries(given).find(([, value]) => value && !isDeepStrictEqual(value, []));
	if (said === undefined) return {};
	throw new UsageError(`kept_agent has its own models, and no box: leave ${said[0]} out`, "box_needed");
}

function pick<K extends keyof typeof shape>(names: K[]): Pick<typeof shape, K> {
	return Object.fromEntries(names.map((name) => [name, shape[name]])) as Pick<typeof shape, K>;
}
