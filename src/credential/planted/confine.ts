import { UsageError } from "../../errors.ts";
import type { PlantedTerms } from "../../model/credential.ts";
import type { StoredRequest } from "../../model/request.ts";

/** Boxes whose only way out is ours: what lies in one cannot be carried elsewhere. */
const WALLED = new Set(["local", "docker"]);

/** Why no sample may be made of what an agent did with a login of its own. */
export const PLANTED_UNTRAINABLE =
	"the agent spoke to its provider with a login of its own: no call went through the gateway, so no token was captured";

/** Throws a UsageError for a request whose box could carry the login away. */
export function requirePlantable({ task, sandbox, conversation }: StoredRequest): void {
	if (conversation !== undefined)
		throw refused("a conversation's files are kept with whatever is in them: use it for a rollout");
	if (!WALLED.has(sandbox))
		throw refused(`a ${sandbox} box has no wall that would keep it in: use local or docker`);
	if (task.box.network !== "none")
		throw refused("the task wants a network of its own, and its box may reach nobody but the provider");
}

/** The same request for a box that reaches the login's hosts and nobody else. */
export function confine<T extends StoredRequest>(request: T, { hosts }: PlantedTerms): T {
	const { task } = request;
	return { ...request, task: { ...task, box: { ...task.box, network: { allow: hosts } } } };
}

function refused(why: string): UsageError {
	return new UsageError(`the login would have to lie in the agent's box: ${why}`, "planting_refused");
}
