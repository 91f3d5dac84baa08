import { z } from "zod";
import { EndpointSpec } from "../model/endpoint.ts";
import { HostName } from "../model/host.ts";
import { AgentModels, AgentName, KeptAgent, KeptBudget } from "../model/kept-agent.ts";
import { API, route } from "./route.ts";

const tag = "agents";
const NameParams = z.object({ name: AgentName });
const Permission = z.enum(["allow", "deny", "ask"]);
const unknown = { 404: "There is no such agent" };

export const listAgents = route({
	name: "listAgents",
	method: "get",
	path: `${API}/agents`,
	tag,
	summary: "Agents that are kept on a machine, outside any box; never a secret",
	reply: z.object({ items: z.array(KeptAgent) }),
});

export const AgentCreate = z
	.strictObject({
		name: AgentName,
		endpoint: EndpointSpec.describe("Where its models are; a key is sealed before it is stored"),
		models: AgentModels,
		via: z.enum(["gateway", "direct"]).optional(),
		budget: KeptBudget.optional(),
		permission: Permission.optional(),
		host: HostName.optional().describe("A machine of GET /hosts where it lives; this one unless given"),
	})
	.meta({ id: "AgentCreate" });

export const addAgent = route({
	name: "addAgent",
	method: "post",
	path: `${API}/agents`,
	tag,
	summary: "Adds an agent that has no walls: only where the operator allows it (PADDOCK_HOST_AGENTS=1)",
	body: AgentCreate,
	reply: KeptAgent,
	status: 201,
	refusals: { 403: "The operator allows no such agents over HTTP", 409: "The name is taken" },
});

export const getAgent = route({
	name: "getAgent",
	method: "get",
	path: `${API}/agents/{name}`,
	tag,
	summary: "One kept agent: its models, what it may spend and has spent, where it runs",
	params: NameParams,
	reply: KeptAgent,
	refusals: unknown,
});

export const AgentPatch = z
	.strictObject({
		models: AgentModels.optional(),
		budget: KeptBudget.optional().describe("Counts at once; all else waits for the next start"),
		permission: Permission.optional(),
		key: z
			.enum(["revoked", "renewed"])
			.optional()
			.describe("revoked: it opens nothing any more, and what runs ends; renewed: it gets another"),
	})
	.meta({ id: "AgentPatch" });

export const changeAgent = route({
	name: "changeAgent",
	method: "patch",
	path: `${API}/agents/{name}`,
	tag,
	summary: "Changes a kept agent, or revokes its key",
	params: NameParams,
	body: AgentPatch,
	reply: KeptAgent,
	refusals: unknown,
});

export const startAgent = route({
	name: "startAgent",
	method: "post",
	path: `${API}/agents/{name}/start`,
	tag,
	summary: "Starts it in the server's own process; one that runs there is left as it is",
	params: NameParams,
	reply: KeptAgent,
	refusals: { ...unknown, 409: "Another process keeps it, or its key is revoked" },
});

export const stopAgent = route({
	name: "stopAgent",
	method: "post",
	path: `${API}/agents/{name}/stop`,
	tag,
	summary: "Stops it, wherever it runs; nothing that it started lives on",
	params: NameParams,
	reply: KeptAgent,
	refusals: unknown,
});

export const getAgentLog = route({
	name: "getAgentLog",
	method: "get",
	path: `${API}/agents/{name}/log`,
	tag,
	summary: "The end of its server's log, without secrets",
	params: NameParams,
	reply: z.object({ text: z.string() }),
	refusals: unknown,
});

export const removeAgent = route({
	name: "removeAgent",
	method: "delete",
	path: `${API}/agents/{name}`,
	tag,
	summary: "Stops it and forgets it, with its key and what sealed it",
	params: NameParams,
	reply: z.object({ removed: z.literal(true) }),
	refusals: unknown,
});
