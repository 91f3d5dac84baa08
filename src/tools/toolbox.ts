import { z } from "zod";
import type { Paddock } from "../paddock.ts";
import { abortRollout } from "./abort-rollout.ts";
import { finalizeRollout } from "./finalize-rollout.ts";
import { getMessages } from "./get-messages.ts";
import { getState } from "./get-state.ts";
import { runRollout } from "./run-rollout.ts";
import { startConversation } from "./start-conversation.ts";
import { startRollout } from "./start-rollout.ts";
import { answer, closeConversation, interrupt, sendMessage } from "./steer.ts";
import { subscribeEvents } from "./subscribe-events.ts";
import type { Tool } from "./tools.ts";

export type Toolbox = ReadonlyMap<string, Tool>;

/** In the order in which callers see them: start something, look at it, stop it. */
const TOOLS = [
	...[runRollout, startRollout, finalizeRollout],
	...[getState, getMessages, subscribeEvents, abortRollout],
];

/** Talking to live agents; OpenEnv's callers have an environment to step through, and no use for them. */
const LIVE_TOOLS = [startConversation, sendMessage, answer, interrupt, closeConversation];

/** What makes rollouts and looks after them, by name. */
export function openToolbox(paddock: Paddock): Toolbox {
	return toToolbox(TOOLS, paddock);
}

/** The same, and live agents. */
export function openLiveToolbox(paddock: Paddock): Toolbox {
	return toToolbox([...TOOLS, ...LIVE_TOOLS], paddock);
}

function toToolbox(tools: ((paddock: Paddock) => Tool)[], paddock: Paddock): Toolbox {
	return new Map(tools.map((open) => open(paddock)).map((tool) => [tool.name, tool]));
}

type JsonSchema = { type: "object"; [key: string]: unknown };

/** Plain objects stay open for fields we may add, strict ones are closed; nothing refers elsewhere. */
export function toJsonSchema(schema: z.ZodType): JsonSchema {
	const { $schema: _, $defs = {}, ...json } = z.toJSONSchema(schema, { io: "input" });
	return { ...(inline(json, $defs) as object), type: "object" };
}

/** Not every client follows references; none of our schemas contains itself. */
function inline(node: unknown, definitions: Record<string, unknown>): unknown {
	if (Array.isArray(node)) return node.map((item) => inline(item, definitions));
	if (typeof node !== "object" || node === null) return node;
	if ("$ref" in node && typeof node.$ref === "string")
		return inline(definitions[node.$ref.replace("#/$defs/", "")], definitions);
	return Object.fromEntries(
		Object.entries(node)
			// The name of a definition, as opposed to a field of that name.
			.filter(([key, item]) => key !== "id" || typeof item !== "string")
			.map(([key, item]) => [key, inline(item, definitions)]),
	);
}
