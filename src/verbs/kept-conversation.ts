import { isDeepStrictEqual } from "node:util";
import type { Config } from "../config.ts";
import { UsageError } from "../errors.ts";
import { ConversationRequest, type ConversationRow } from "../model/conversation.ts";
import type { KeptAgent } from "../model/kept-agent.ts";
import { unknownAgent } from "../store/kept-agents.ts";
import type { Store } from "../store/store.ts";

/** What can be said of a conversation with a kept agent. All else is said of a box, which it has not, or is the agent's own. */
const SAYABLE: ReadonlySet<string> = new Set([
	...["text", "keptAgent", "folder", "idleS", "lifetimeS", "labels", "priority", "maxAttempts"],
	...["permission", "permissionRules", "permissionDeadlineS", "permissionDefault"],
]);

/** The agent that is asked for, if one is. Says no before anything is stored. */
export async function findKept(
	asked: ConversationRequest,
	store: Store,
	config: Config,
): Promise<KeptAgent | null> {
	if (asked.keptAgent === undefined) return null;
	requireConsent(asked, config);
	const { agent: options, ...terms } = asked;
	const { agent: usual, ...defaults } = ConversationRequest.parse({ keptAgent: asked.keptAgent });
	const strange = [...unsayable(terms, defaults), ...unsayable(options, usual)];
	if (strange.length > 0)
		throw new UsageError(
			`a kept agent has no box, and its own models: ${strange.join(", ")} cannot be asked of it`,
			"box_needed",
		);
	const agent = await store.agents.find(asked.keptAgent);
	if (agent === null) throw unknownAgent(asked.keptAgent);
	if (agent.host !== null && asked.folder !== undefined)
		throw new UsageError(
			`the agent ${agent.name} lives on ${agent.host}, and works in a folder of its own there: leave out the folder`,
			"folder_refused",
		);
	return agent;
}

/** It can do what its user can: a token for rollouts must not be a shell on this machine, not even one that others opened. */
export function requireConsent(
	conversation: Pick<ConversationRequest | ConversationRow, "keptAgent"> | null,
	{ hostAgents }: Config,
): void {
	if (!conversation?.keptAgent || hostAgents) return;
	throw new UsageError(
		"a kept agent has no walls: it is talked to on its own machine (paddock chat --agent), or with PADDOCK_HOST_AGENTS=1",
		"host_agents_refused",
	);
}

function unsayable(given: object, defaults: object): string[] {
	const usual = new Map<string, unknown>(Object.entries(defaults));
	const isStrange = ([name, value]: [string, unknown]) =>
		!SAYABLE.has(name) && !isDeepStrictEqual(value, usual.get(name));
	return Object.entries(given)
		.filter(isStrange)
		.map(([name]) => name);
}
