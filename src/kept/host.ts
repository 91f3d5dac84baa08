import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import type { KeptAgents, ReachedAgent } from "../agent/keeper/reached.ts";
import { messageOf, UsageError } from "../errors.ts";
import { credentialOf, normaliseBaseUrl } from "../gateway/catalog.ts";
import { findServeProgram } from "../host/find-program.ts";
import { Hosts } from "../host/hosts.ts";
import type { EndpointSpec } from "../model/endpoint.ts";
import { AgentName, type KeptAgent, type KeptBudget } from "../model/kept-agent.ts";
import type { KeptAgentChange } from "../store/kept-agent-steps.ts";
import { unknownAgent } from "../store/kept-agents.ts";
import { forgetThere, goBetween } from "./elsewhere/elsewhere.ts";
import { Keeping, type KeepingDeps, toKeeper } from "./keeping.ts";
import { Neighbour } from "./neighbour.ts";
import { isHere, isThere, ownPlace } from "./place.ts";

export interface HostOptions extends KeepingDeps {
	/** Of Paddock; agents have their homes below it, unless they are given another. */
	home: string;
}

export interface AgentToAdd {
	name: string;
	endpoint: EndpointSpec;
	models: string[];
	via?: "gateway" | "direct" | undefined;
	budget?: KeptBudget | undefined;
	permission?: "allow" | "deny" | "ask" | undefined;
	/** Absolute. */
	home?: string | undefined;
	/** Absolute. */
	binary?: string | undefined;
	/** A machine that was given a name. */
	host?: string | undefined;
}

export interface AgentChange {
	models?: string[] | undefined;
	budget?: KeptBudget | undefined;
	permission?: "allow" | "deny" | "ask" | undefined;
	/** `revoked`: its key opens nothing any more, and what runs ends. `renewed`: it gets another. */
	key?: "revoked" | "renewed" | undefined;
}

interface Started {
	keeping: Promise<Keeping>;
	/** For as long as it starts. */
	stop: AbortController;
}

const LOG_TAIL_BYTES = 256 * 1024;
/** How long a stop waits for the process that keeps the agent. */
const STOP_MS = 20_000;

/** The agents that are kept outside any box: their records, and the servers of those that this process keeps. */
export class AgentHost implements KeptAgents, AsyncDisposable {
	readonly #options: HostOptions;
	readonly #hosts: Hosts;
	readonly #kept = new Map<string, Started>();
	#isClosed = false;

	constructor(options: HostOptions) {
		this.#options = options;
		this.#hosts = new Hosts(options.home);
	}

	list(): Promise<KeptAgent[]> {
		return this.#options.store.agents.list();
	}

	find(name: string): Promise<KeptAgent | null> {
		return this.#options.store.agents.find(name);
	}

	async add({ name, endpoint, models, binary, host, ...agent }: AgentToAdd): Promise<KeptAgent> {
		const parsed = AgentName.safeParse(name);
		if (!parsed.success)
			throw new UsageError(`a name is made of ${parsed.error.issues[0]!.message}`, "bad_agent");
		if (models.length === 0) throw new UsageError("an agent needs at least one model", "bad_agent");
		const { home = join(this.#options.home, "agents", name), via = "gateway" } = agent;
		if (!isAbsolute(home)) throw new UsageError(`${home} is no absolute path`, "bad_agent");
		if ((await this.list()).some((other) => other.home === home && other.name !== name))
			throw new UsageError(`another agent has its home in ${home}`, "bad_agent");
		if (host !== undefined) await this.#requireHost(host, via, binary);
		const { spec, apiKey } = withoutKey(endpoint);
		const secrets = { password: newSecret(), key: newKey(), apiKey };
		const { budget = {}, permission = "ask" } = agent;
		return await this.#options.store.agents.add(
			{
				...{ name, home, host: host ?? null, binary: binary ?? null },
				...{ via, endpoint: spec, models, budget, permission },
			},
			secrets,
		);
	}

	/** Null when there is none. A budget counts at once, all else at the next start. */
	async change(name: string, { key, ...change }: AgentChange): Promise<KeptAgent | null> {
		const { agents } = this.#options.store;
		if ((await this.find(name)) === null) return null;
		const fields = Object.entries(change).filter(([, value]) => value !== undefined);
		const revoked = key === "revoked" ? { revokedAt: Date.now() } : {};
		const needsRestart = change.models !== undefined || change.permission !== undefined;
		const changed: KeptAgentChange = { ...Object.fromEntries(fields), ...revoked };
		const agent = await agents.change(name, changed, { needsRestart });
		return key === "renewed" ? await agents.renewKey(name, newKey()) : agent;
	}

	/** Started here, and kept by this process as long as it lives; one that runs already is left as it is. */
	async start(name: string): Promise<Keeping> {
		// Nobody would be left to end it.
		if (this.#isClosed) throw new UsageError("this process is about to end", "agent_stopped");
		const started = this.#kept.get(name) ?? this.#begin(name);
		try {
			const kept = await started.keeping;
			void kept.ended.then(() => this.#forget(name, started));
			return kept;
		} catch (error) {
			this.#forget(name, started);
			throw error;
		}
	}

	/** Wherever it runs; null when there is none. */
	async stop(name: string): Promise<KeptAgent | null> {
		const { agents } = this.#options.store;
		const here = await this.#here(name);
		const agent = await agents
			.change(name, { wanted: "stopped" }, { needsRestart: false })
			// What runs here ends, whether or not that can be written down.
			.finally(() => here?.[Symbol.asyncDispose]());
		if (agent === null) return null;
		if (here) return await this.find(name);
		if (agent.keptBy !== null && (await isThere(agent.keptBy))) await this.#untilReleased(agent);
		else await this.#endLeftBehind(agent);
		return await this.find(name);
	}

	/** With its home, unless that was chosen by somebody; false when there is none. */
	async remove(name: string): Promise<boolean> {
		const agent = await this.stop(name);
		if (agent === null) return false;
		const removed = await this.#options.store.agents.remove(name);
		if (agent.host !== null)
			await forgetThere(agent, agent.host, this.#hosts).catch((error) =>
				this.#options.warn(`agent ${name}: its home on ${agent.host} stays: ${messageOf(error)}`),
			);
		if (agent.home === join(this.#options.home, "agents", name))
			await rm(agent.home, { recursive: true, force: true });
		return removed;
	}

	/** Kept by this process or another of this machine; started here if nobody keeps it. */
	async reach(name: string): Promise<ReachedAgent> {
		const { store } = this.#options;
		const agent = await this.find(name);
		if (agent === null) throw unknownAgent(name);
		const { keptBy, baseUrl } = agent;
		if (!this.#kept.has(name)) {
			if (isElsewhere(agent)) throw notHere(name);
			const isNeighbour = keptBy !== null && keptBy.pid !== process.pid && (await isThere(keptBy));
			if (isNeighbour && baseUrl !== null)
				return new Neighbour(agent, baseUrl, (await store.agents.secrets(name)).password, store);
		}
		const kept = await this.start(name);
		const { over } = kept;
		if (over.aborted) {
			await kept.ended;
			return await this.reach(name);
		}
		return { agent: kept.agent, over, open: (options) => kept.open(options), [Symbol.dispose]: () => {} };
	}

	/** The end of its server's log, without its secrets; null when there is no such agent. */
	async log(name: string): Promise<string | null> {
		const agent = await this.find(name);
		if (agent === null) return null;
		const secrets = await this.#options.store.agents.secrets(name);
		const text = await tailOf(join(agent.home, "serve.log"));
		return Object.values(secrets).reduce<string>(
			(said, secret) => (secret === null ? said : said.replaceAll(secret, "[hidden]")),
			text,
		);
	}

	/** What its running server is reached with; null when it does not run. */
	async access(name: string): Promise<{ baseUrl: string; password: string } | null> {
		const agent = await this.find(name);
		if (agent === null) throw unknownAgent(name);
		const { password } = await this.#options.store.agents.secrets(name);
		return agent.baseUrl === null ? null : { baseUrl: agent.baseUrl, password };
	}

	/** What was to run when this machine's last process ended, for a server that starts. Never rejects: each says its own trouble. */
	async resume(): Promise<void> {
		const { warn } = this.#options;
		const agents = await this.list().catch((error) => {
			warn(`agents could not be listed: ${messageOf(error)}`);
			return [];
		});
		for (const { name, wanted, keptBy } of agents) {
			if (wanted !== "running" || keptBy === null || (await isThere(keptBy))) continue;
			if (this.#isClosed) return;
			await this.start(name).catch((error) => warn(`agent ${name}: ${messageOf(error)}`));
		}
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#isClosed = true;
		const kept = await Promise.all([...this.#kept.keys()].map((name) => this.#here(name)));
		await Promise.all(kept.map((each) => each?.[Symbol.asyncDispose]()));
	}

	/** There it has the agent that boxes have, and its models by way of the gateway: the endpoint's key stays here. */
	async #requireHost(host: string, via: string, binary: string | undefined): Promise<void> {
		if (via === "direct")
			throw new UsageError(
				"an agent on another machine reaches its models by way of the gateway",
				"bad_agent",
			);
		if (binary !== undefined)
			throw new UsageError("an agent on another machine is the one that is installed there", "bad_agent");
		await this.#hosts.find(host);
	}

	#begin(name: string): Started {
		const stop = new AbortController();
		const started = { stop, keeping: this.#start(name, stop.signal) };
		this.#kept.set(name, started);
		return started;
	}

	/** What is to be ended here: one that just starts is not waited for, it ends as it is. */
	async #here(name: string): Promise<Keeping | null> {
		const started = this.#kept.get(name);
		started?.stop.abort();
		return (await started?.keeping.catch(() => null)) ?? null;
	}

	#forget(name: string, started: Started): void {
		if (this.#kept.get(name) === started) this.#kept.delete(name);
	}

	async #start(name: string, stop: AbortSignal): Promise<Keeping> {
		const { store, env } = this.#options;
		const agent = await this.find(name);
		if (agent === null) throw unknownAgent(name);
		if (agent.revokedAt !== null)
			throw new UsageError(
				`the key of the agent ${name} was revoked: renew it (--key renewed)`,
				"agent_revoked",
			);
		const program =
			agent.host === null
				? { binary: findServeProgram({ explicit: agent.binary, path: env.PATH }) }
				: await goBetween(agent, await this.#hosts.find(agent.host), stop);
		const { keptBy } = agent;
		const place = await ownPlace();
		const taken =
			keptBy !== null && (await isThere(keptBy)) ? null : await store.agents.take(name, place, keptBy);
		if (taken === null)
			throw new UsageError(
				`the agent ${name} is kept by another process already (${describe(keptBy)}): stop it first`,
				"agent_kept",
			);
		return await Keeping.start(taken, place, program, this.#options, stop);
	}

	/** Whoever keeps it is told by the record. */
	async #untilReleased({ id, name, keptBy }: KeptAgent): Promise<void> {
		const released = Promise.withResolvers<boolean>();
		const { store } = this.#options;
		const look = async () => {
			const now = await store.agents.find(name);
			if (now === null || now.keptBy === null) released.resolve(true);
		};
		using _watching = store.watch(id, () => void look().catch(released.reject));
		const late = setTimeout(() => released.resolve(false), STOP_MS);
		await look();
		const isReleased = await released.promise.finally(() => clearTimeout(late));
		if (!isReleased)
			throw new UsageError(
				`the process that keeps the agent ${name} does not let it go (${describe(keptBy)})`,
				"agent_kept",
			);
	}

	/** Its keeper was killed: the server lives on, and knows its password. */
	async #endLeftBehind(agent: KeptAgent): Promise<void> {
		const { store } = this.#options;
		const secrets = await store.agents.secrets(agent.name);
		const provider = { baseUrl: "", apiKey: secrets.key, models: agent.models };
		await toKeeper(agent, secrets, { binary: "" }, provider).stop();
		if (agent.keptBy !== null) await store.agents.release(agent.name, agent.keptBy);
	}
}

/** Kept on another machine, or was: what it remembers is there. */
function isElsewhere({ keptBy, starts, home }: KeptAgent): boolean {
	if (keptBy !== null) return !isHere(keptBy);
	return starts > 0 && !existsSync(home);
}

function notHere(name: string): UsageError {
	return new UsageError(`the agent ${name} is kept on another machine than this`, "agent_not_here");
}

function describe(place: KeptAgent["keptBy"]): string {
	return place === null ? "just now" : `process ${place.pid} on ${place.machine.split(" ")[0]}`;
}

/** The key goes into the vault, the rest into the record. */
function withoutKey(endpoint: EndpointSpec): { spec: EndpointSpec; apiKey: string | null } {
	if (endpoint.type === "policy")
		throw new UsageError("a kept agent needs an endpoint with a model", "bad_agent");
	credentialOf(endpoint);
	const { apiKey = null, ...spec } = endpoint;
	if (spec.type === "url") spec.baseUrl = normaliseBaseUrl(spec.baseUrl, "base_url");
	return { spec, apiKey };
}

function newSecret(): string {
	return randomBytes(32).toString("base64url");
}

function newKey(): string {
	return `pk-${newSecret()}`;
}

async function tailOf(path: string): Promise<string> {
	try {
		await using file = await open(path, "r");
		const { size } = await file.stat();
		const start = Math.max(0, size - LOG_TAIL_BYTES);
		const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start);
		return buffer.subarray(0, bytesRead).toString("utf8");
	} catch (error) {
		// It was never started.
		if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
		throw error;
	}
}
