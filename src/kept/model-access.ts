import type { KeptProvider } from "../agent/keeper/home.ts";
import { holdCredential } from "../credential/hold.ts";
import { UsageError } from "../errors.ts";
import { openGateway } from "../gateway/agent-side/server.ts";
import { credentialOf, type NamedSpec, resolveCredential, resolveEndpoint } from "../gateway/catalog.ts";
import type { Gateway, Tap } from "../gateway/gateway.ts";
import { learnSecret } from "../log.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { KeptAgent, KeptBudget } from "../model/kept-agent.ts";
import { Sampling } from "../model/request.ts";
import type { Budget } from "../model/task.ts";
import type { KeptSecrets } from "../store/kept-agents.ts";
import { TraceWriter } from "../store/trace/trace-log.ts";
import type { KeepingDeps } from "./keeping.ts";

/** How a kept agent reaches its models. */
export interface ModelAccess extends AsyncDisposable {
	readonly provider: KeptProvider;
	/** From now on it may spend this much in all. */
	allow(budget: KeptBudget): Promise<void>;
}

const LOOPBACK = "127.0.0.1";

export async function openModelAccess(
	agent: KeptAgent,
	secrets: KeptSecrets,
	deps: KeepingDeps,
): Promise<ModelAccess> {
	await using stack = new AsyncDisposableStack();
	const endpoint = await resolve(agent, secrets, deps, stack);
	const { models } = agent;
	if (agent.via === "direct") {
		// It lies in the agent's own configuration.
		if (endpoint.apiKey !== undefined) learnSecret(endpoint.apiKey);
		const owned = stack.move();
		return {
			provider: { baseUrl: endpoint.baseUrl, apiKey: endpoint.apiKey ?? "none", models },
			allow: async () => {},
			[Symbol.asyncDispose]: () => owned.disposeAsync(),
		};
	}
	const gateway = stack.use(await openGateway());
	const baseUrl = await listenAgain(gateway, portOf(agent));
	const taps = stack.use(new AgentTaps(agent, secrets.key, endpoint, gateway, deps));
	const owned = stack.move();
	return {
		provider: { baseUrl, apiKey: secrets.key, models },
		allow: (budget) => taps.allow(budget),
		[Symbol.asyncDispose]: () => owned.disposeAsync(),
	};
}

async function resolve(
	{ endpoint: spec, models, name }: KeptAgent,
	{ apiKey }: KeptSecrets,
	deps: KeepingDeps,
	stack: AsyncDisposableStack,
): Promise<Endpoint> {
	if (spec.type === "policy") throw noModel(name);
	const model = models[0]!;
	const ask = credentialOf(spec);
	if (ask !== null) {
		if (ask.type !== "cred") throw onlyKeys(name);
		const held = stack.use(await holdCredential(deps.store.credentials, ask.name, `agent ${name}`));
		if (held.hold.credential.login !== null) throw onlyKeys(name);
		return { ...resolveCredential(spec as NamedSpec, held.hold.credential, held.hold.secret), model };
	}
	const endpoint = resolveEndpoint(apiKey === null ? spec : { ...spec, apiKey }, deps.env);
	if (endpoint === "policy") throw noModel(name);
	return { ...endpoint, model };
}

/** Tokens of a login rotate, and pools change hands; an agent is kept for weeks. */
function onlyKeys(name: string): UsageError {
	return new UsageError(
		`the agent ${name} takes a stored API key (cred:<label>), no login and no pool`,
		"bad_agent",
	);
}

function noModel(name: string): UsageError {
	return new UsageError(
		`the agent ${name} needs an endpoint with a model; a scripted one has a task to play`,
		"endpoint_not_configured",
	);
}

/** The one it had before, so that a server which outlived us finds its models again; else any. */
async function listenAgain(gateway: Gateway, port: number): Promise<string> {
	try {
		return await gateway.listen(LOOPBACK, port);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
		return await gateway.listen(LOOPBACK, 0);
	}
}

const FIRST_PORT = 41_000;
const PORTS = 8_000;

/** The same for the same agent each time, without being written anywhere. */
function portOf({ id }: KeptAgent): number {
	const chance = Number.parseInt(id.slice(-6), 16);
	return FIRST_PORT + (chance % PORTS);
}

/** The agent's key at the gateway. What it spends is counted in its record, over all its starts. */
class AgentTaps implements AsyncDisposable {
	readonly #agent: KeptAgent;
	readonly #key: string;
	readonly #endpoint: Endpoint;
	readonly #gateway: Gateway;
	readonly #deps: KeepingDeps;
	readonly #sink: TraceWriter;
	#budget: KeptBudget;
	#tap: Tap;
	#spending: Promise<void> = Promise.resolve();
	#isOver = false;

	constructor(agent: KeptAgent, key: string, endpoint: Endpoint, gateway: Gateway, deps: KeepingDeps) {
		this.#agent = agent;
		this.#key = key;
		this.#endpoint = endpoint;
		this.#gateway = gateway;
		this.#deps = deps;
		this.#sink = new TraceWriter((bytes) => deps.store.appendTrace(agent.id, agent.starts, bytes));
		this.#budget = agent.budget;
		this.#tap = this.#open(agent.spent);
	}

	async allow(budget: KeptBudget): Promise<void> {
		if (JSON.stringify(budget) === JSON.stringify(this.#budget)) return;
		this.#budget = budget;
		await this.#renew();
	}

	/** The same key, with what is left now. */
	async #renew(): Promise<void> {
		await this.#spending;
		const { spent } = (await this.#deps.store.agents.find(this.#agent.name)) ?? this.#agent;
		const old = this.#tap;
		this.#tap = this.#open(spent);
		await old.revoke();
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#isOver = true;
		await this.#tap.revoke();
		await this.#spending;
	}

	#open(spent: KeptAgent["spent"]): Tap {
		const { id, name, starts, models } = this.#agent;
		return this.#gateway.openTap({
			...{ rolloutId: id, attempt: starts, boxId: `agent ${id}`, overTcp: true },
			...{ key: this.#key, endpoint: this.#endpoint, models, sink: this.#sink },
			// Chains of tokens are joined with one model's own template.
			sampling: Sampling.parse({ maxTokensCap: 0, ...(models.length > 1 ? { continuity: "off" } : {}) }),
			budget: left(this.#budget, spent),
			// One session that runs in circles has ended by then; the agent's others go on.
			onStop: (stop) => {
				if (stop.type === "failure" && !this.#isOver) void this.#renew();
			},
			onCallEnd: ({ promptTokens, completionTokens }) => {
				const count = () => this.#deps.store.agents.spend(name, { calls: 1, promptTokens, completionTokens });
				this.#spending = this.#spending.then(count).catch((error) => {
					this.#deps.warn(`agent ${name}: what it spent could not be counted: ${String(error)}`);
				});
			},
		});
	}
}

/** A limit that is used up leaves nothing: the gateway refuses the next call. */
function left(budget: KeptBudget, { calls, promptTokens, completionTokens }: KeptAgent["spent"]): Budget {
	const rest = (limit: number | undefined, spent: number) =>
		limit === undefined ? undefined : Math.max(0, limit - spent);
	return {
		maxCalls: rest(budget.maxCalls, calls) ?? Number.MAX_SAFE_INTEGER,
		maxInputTokens: rest(budget.maxInputTokens, promptTokens),
		maxOutputTokens: rest(budget.maxOutputTokens, completionTokens),
		maxTotalTokens: rest(budget.maxTotalTokens, promptTokens + completionTokens),
	};
}
