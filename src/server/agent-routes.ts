import type { OpenAPIHono } from "@hono/zod-openapi";
import {
	addAgent,
	changeAgent,
	getAgent,
	getAgentLog,
	listAgents,
	removeAgent,
	startAgent,
	stopAgent,
} from "../api/agents.ts";
import type { HttpDoor } from "./http-door.ts";
import { mount } from "./mount.ts";
import { ProblemError } from "./problem.ts";

export function mountAgents(app: OpenAPIHono, { paddock }: HttpDoor): void {
	mount(app, listAgents, async () => ({ items: await paddock.agents() }));

	mount(app, addAgent, async ({ body }) => {
		// It can do what the server's own user can: a token for rollouts must not be a shell on this machine.
		if (!paddock.config.hostAgents)
			throw new ProblemError(
				403,
				"host_agents_refused",
				"agents without a box are added on the machine itself (paddock agent add), or with PADDOCK_HOST_AGENTS=1",
			);
		return await paddock.addAgent(body);
	});

	mount(app, getAgent, async ({ params }) => known(await paddock.agent(params.name), params.name));
	mount(app, changeAgent, async ({ params, body }) =>
		known(await paddock.changeAgent(params.name, body), params.name),
	);

	mount(app, startAgent, async ({ params }) => {
		await paddock.startAgent(params.name);
		return known(await paddock.agent(params.name), params.name);
	});

	mount(app, stopAgent, async ({ params }) => known(await paddock.stopAgent(params.name), params.name));

	mount(app, getAgentLog, async ({ params }) => ({
		text: known(await paddock.agentLog(params.name), params.name),
	}));

	mount(app, removeAgent, async ({ params }) => {
		if (!(await paddock.removeAgent(params.name))) throw unknown(params.name);
		return { removed: true as const };
	});
}

function known<T>(found: T | null, name: string): T {
	if (found === null) throw unknown(name);
	return found;
}

function unknown(name: string): ProblemError {
	return new ProblemError(404, "unknown_agent", `there is no agent ${name}`);
}
