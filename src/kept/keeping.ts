import { writeHome } from "../agent/keeper/home.ts";
import { ServeKeeper } from "../agent/keeper/keeper.ts";
import type { ServeConversation, ServeConversationOptions } from "../agent/serve/conversation.ts";
import { messageOf } from "../errors.ts";
import type { AgentKeeperPlace, KeptAgent } from "../model/kept-agent.ts";
import type { KeptSecrets } from "../store/kept-agents.ts";
import type { Store } from "../store/store.ts";
import type { ServeProgram } from "./elsewhere/elsewhere.ts";
import { type ModelAccess, openModelAccess } from "./model-access.ts";

export interface KeepingDeps {
	store: Store;
	/** For the endpoint catalog. */
	env: Record<string, string | undefined>;
	warn(message: string): void;
}

/** A running agent in the hands of this process: its server, and its way to the models. Ends when somebody says so, anywhere. */
export class Keeping implements AsyncDisposable {
	readonly keeper: ServeKeeper;
	readonly #agent: KeptAgent;
	readonly #place: AgentKeeperPlace;
	readonly #deps: KeepingDeps;
	readonly #access: ModelAccess;
	readonly #ended = Promise.withResolvers<string>();
	readonly #over = new AbortController();
	#watching: Disposable | null = null;
	#closing: Promise<void> | null = null;

	private constructor(
		agent: KeptAgent,
		place: AgentKeeperPlace,
		deps: KeepingDeps,
		parts: { keeper: ServeKeeper; access: ModelAccess },
	) {
		this.#agent = agent;
		this.#place = place;
		this.#deps = deps;
		this.keeper = parts.keeper;
		this.#access = parts.access;
	}

	/** The agent must be ours already; it is let go again when it does not start, or when `stop` fires before it has. */
	static async start(
		agent: KeptAgent,
		place: AgentKeeperPlace,
		program: ServeProgram,
		deps: KeepingDeps,
		stop: AbortSignal,
	): Promise<Keeping> {
		const { agents } = deps.store;
		await using stack = new AsyncDisposableStack();
		stack.defer(() => agents.release(agent.name, place));
		const secrets = await agents.secrets(agent.name);
		const access = stack.use(await openModelAccess(agent, secrets, deps));
		const keeper = stack.use(toKeeper(agent, secrets, program, access.provider));
		// A server that an earlier process left runs on, unless it would not find its models any more.
		if (await writeHome(agent.home, access.provider)) await keeper.stop();
		// What goes wrong with it shows when the keeper is disposed of, which stops it once more.
		const stopNow = () => void keeper.stop().catch(() => {});
		stop.addEventListener("abort", stopNow);
		stack.defer(() => stop.removeEventListener("abort", stopNow));
		stop.throwIfAborted();
		const { baseUrl } = await keeper.ensureRunning();
		await agents.listens(agent.name, place, baseUrl);
		stop.removeEventListener("abort", stopNow);
		stack.move();
		const keeping = new Keeping(agent, place, deps, { keeper, access });
		keeping.#watching = deps.store.watch(agent.id, () => void keeping.#look());
		void keeping.#keep();
		// Something may have been said between taking and watching.
		void keeping.#look();
		return keeping;
	}

	/** Why it ended. */
	get ended(): Promise<string> {
		return this.#ended.promise;
	}

	/** Fires, with why as its reason, before anything of it ends. */
	get over(): AbortSignal {
		return this.#over.signal;
	}

	get agent(): KeptAgent {
		return this.#agent;
	}

	get baseUrl(): string | null {
		return this.keeper.baseUrl;
	}

	open(options: ServeConversationOptions): Promise<ServeConversation> {
		return this.keeper.open(options);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#close("the process that kept it ended");
	}

	/** What others changed: it goes on, with what it may spend now, or it ends. */
	async #look(): Promise<void> {
		try {
			const agent = await this.#deps.store.agents.find(this.#agent.name);
			if (agent === null || agent.id !== this.#agent.id) await this.#close("it was removed");
			else if (agent.revokedAt !== null) await this.#close("its key was revoked");
			else if (agent.wanted === "stopped") await this.#close("it was stopped");
			else await this.#access.allow(agent.budget);
		} catch (error) {
			this.#deps.warn(`agent ${this.#agent.name}: its record could not be read: ${messageOf(error)}`);
		}
	}

	/** A server that ends by itself is started again, with a growing rest, until that no longer helps. */
	async #keep(): Promise<void> {
		while (this.#closing === null) {
			await this.keeper.ended;
			if (this.#closing !== null) return;
			try {
				const { baseUrl } = await this.keeper.ensureRunning();
				await this.#deps.store.agents.listens(this.#agent.name, this.#place, baseUrl);
			} catch (error) {
				if (this.#closing !== null) return;
				this.#deps.warn(`agent ${this.#agent.name}: ${messageOf(error)}`);
				if ((error as { retryable?: boolean }).retryable !== true)
					return await this.#close("its server keeps ending");
			}
		}
	}

	#close(reason: string): Promise<void> {
		this.#closing ??= this.#closeNow(reason);
		return this.#closing;
	}

	async #closeNow(reason: string): Promise<void> {
		this.#over.abort(reason);
		this.#watching?.[Symbol.dispose]();
		await using stack = new AsyncDisposableStack();
		stack.defer(() => this.#ended.resolve(reason));
		stack.defer(() => this.#deps.store.agents.release(this.#agent.name, this.#place));
		stack.use(this.#access);
		stack.use(this.keeper);
	}
}

/** The same for whoever only has to end what a dead process left. */
export function toKeeper(
	agent: KeptAgent,
	secrets: KeptSecrets,
	program: ServeProgram,
	provider: ModelAccess["provider"],
): ServeKeeper {
	const { home, permission } = agent;
	return new ServeKeeper({
		...{ home, ...program, provider, password: secrets.password },
		permission: { permission, permissionRules: [] },
	});
}
