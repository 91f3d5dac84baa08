import { UsageError } from "../errors.ts";
import { learnSecret } from "../log.ts";
import { newId } from "../model/id.ts";
import type { AgentKeeperPlace, KeptAgent } from "../model/kept-agent.ts";
import type { Database } from "./database.ts";
import type {
	KeptAgentChange,
	KeptAgentDecision,
	KeptAgentRecord,
	KeptAgentRow,
	KeptAgentStep,
} from "./kept-agent-steps.ts";
import type { SealingKey } from "./vault/seal.ts";
import type { Vault } from "./vault/vault.ts";

/** What an agent is driven with; leaves the store only towards whoever keeps the agent. */
export interface KeptSecrets {
	/** Of its own server. */
	password: string;
	/** Of the gateway, good for this agent alone. */
	key: string;
	/** Of its endpoint, where the caller brought one. */
	apiKey: string | null;
}

export type NewKeptAgent = Pick<
	KeptAgent,
	"name" | "home" | "host" | "binary" | "via" | "endpoint" | "models" | "budget" | "permission"
>;

/** Records of the agents that are kept on machines, outside any box. Secrets rest sealed, each agent's under a key of its own. */
export class KeptAgents {
	readonly #database: Database;
	readonly #vault: Vault;

	constructor(database: Database, vault: Vault) {
		this.#database = database;
		this.#vault = vault;
	}

	async add({ name, ...agent }: NewKeptAgent, secrets: KeptSecrets): Promise<KeptAgent> {
		const id = newId("ag");
		const key = await this.#vault.keyOf(agentKeyName(id));
		const at = Date.now();
		const record: KeptAgentRecord = {
			...agent,
			...{ spent: { calls: 0, promptTokens: 0, completionTokens: 0 }, revokedAt: null, wanted: "stopped" },
			...{ keptBy: null, baseUrl: null, needsRestart: false, starts: 0, createdAt: at, updatedAt: at },
			keyFingerprint: fingerprintOf(key, secrets.key),
		};
		const row = { id, name, record, sealed: seal(key, id, secrets), revision: 1 };
		const made = await this.#database.changeAgent(name, { type: "add", row });
		if ("refused" in made)
			throw new UsageError(
				`there is an agent ${name} already: remove it, or take another name`,
				"agent_exists",
			);
		return toAgent(row);
	}

	async list(): Promise<KeptAgent[]> {
		return (await this.#database.agents()).map(toAgent);
	}

	async find(name: string): Promise<KeptAgent | null> {
		return (await this.list()).find((agent) => agent.name === name) ?? null;
	}

	async secrets(name: string): Promise<KeptSecrets> {
		const row = (await this.#database.agents()).find((each) => each.name === name);
		if (row === undefined) throw unknownAgent(name);
		const key = await this.#vault.keyOf(agentKeyName(row.id));
		const secrets = JSON.parse(key.open(row.sealed, contextOf(row.id)).toString("utf8")) as KeptSecrets;
		for (const secret of Object.values(secrets)) if (secret !== null) learnSecret(secret);
		return secrets;
	}

	/** Null when there is none. `needsRestart`: what runs goes on as it was until it is started anew. */
	async change(
		name: string,
		change: KeptAgentChange,
		options: { needsRestart: boolean },
	): Promise<KeptAgent | null> {
		return await this.#step(name, { type: "change", change, ...options });
	}

	/** Another key; the old one opens nothing any more. */
	async renewKey(name: string, newKey: string): Promise<KeptAgent | null> {
		const agent = await this.find(name);
		if (agent === null) return null;
		const secrets = await this.secrets(name);
		const key = await this.#vault.keyOf(agentKeyName(agent.id));
		const sealed = seal(key, agent.id, { ...secrets, key: newKey });
		const change = { keyFingerprint: fingerprintOf(key, newKey), revokedAt: null };
		return await this.#step(name, { type: "change", change, sealed, needsRestart: true });
	}

	/** Takes the agent from `instead`, or from nobody; null when somebody else was faster. */
	async take(
		name: string,
		by: AgentKeeperPlace,
		instead: AgentKeeperPlace | null,
	): Promise<KeptAgent | null> {
		return await this.#step(name, { type: "take", by, instead });
	}

	async listens(name: string, by: AgentKeeperPlace, baseUrl: string | null): Promise<void> {
		await this.#step(name, { type: "listens", by, baseUrl });
	}

	async release(name: string, by: AgentKeeperPlace): Promise<void> {
		await this.#step(name, { type: "release", by });
	}

	async spend(name: string, spent: KeptAgent["spent"]): Promise<void> {
		await this.#step(name, { type: "spend", ...spent });
	}

	/** With the key that sealed its secrets; false when there is none. */
	async remove(name: string): Promise<boolean> {
		return !("refused" in (await this.#database.changeAgent(name, { type: "remove" })));
	}

	async #step(name: string, step: KeptAgentStep): Promise<KeptAgent | null> {
		const decision: KeptAgentDecision = await this.#database.changeAgent(name, step);
		return "refused" in decision || decision.row === null ? null : toAgent(decision.row);
	}
}

export function agentKeyName(id: string): string {
	return `agent ${id}`;
}

export function unknownAgent(name: string): UsageError {
	return new UsageError(`there is no agent ${name}`, "unknown_agent");
}

function contextOf(id: string): string {
	return `agent ${id}`;
}

function seal(key: SealingKey, id: string, secrets: KeptSecrets): Uint8Array {
	return key.seal(JSON.stringify(secrets), contextOf(id));
}

function fingerprintOf(key: SealingKey, secret: string): string {
	return key.fingerprint(secret).slice(0, 12);
}

function toAgent({ id, name, record }: KeptAgentRow): KeptAgent {
	return { id, name, ...record };
}
