import type { ReachedAgent } from "../agent/keeper/reached.ts";
import { openServeConversation } from "../agent/serve/attach.ts";
import type { ServeConversation, ServeConversationOptions } from "../agent/serve/conversation.ts";
import type { KeptAgent } from "../model/kept-agent.ts";
import { isSamePlace } from "../store/kept-agent-steps.ts";
import type { Store } from "../store/store.ts";

/** An agent that another process of this machine keeps. What becomes of it is told by its record. */
export class Neighbour implements ReachedAgent {
	readonly agent: KeptAgent;
	readonly #url: string;
	readonly #password: string;
	readonly #store: Store;
	readonly #over = new AbortController();
	readonly #moved = Promise.withResolvers<{ exitCode: null; signal: string }>();
	readonly #watching: Disposable;

	constructor(agent: KeptAgent, url: string, password: string, store: Store) {
		this.agent = agent;
		this.#url = url;
		this.#password = password;
		this.#store = store;
		// A record that cannot be read just now is read at its next change.
		this.#watching = store.watch(agent.id, () => void this.#look().catch(() => {}));
		void this.#look().catch(() => {});
	}

	get over(): AbortSignal {
		return this.#over.signal;
	}

	open(options: ServeConversationOptions): Promise<ServeConversation> {
		const serverEnded = this.#moved.promise;
		return openServeConversation({ ...options, serverEnded, url: this.#url, password: this.#password });
	}

	[Symbol.dispose](): void {
		this.#watching[Symbol.dispose]();
	}

	async #look(): Promise<void> {
		const now = await this.#store.agents.find(this.agent.name);
		if (now === null || now.id !== this.agent.id) this.#over.abort("it was removed");
		else if (now.revokedAt !== null) this.#over.abort("its key was revoked");
		else if (now.wanted === "stopped") this.#over.abort("it was stopped");
		else if (!isSamePlace(now.keptBy, this.agent.keptBy)) this.#over.abort("the process that kept it ended");
		else if (now.baseUrl !== this.#url) this.#moved.resolve({ exitCode: null, signal: "started anew" });
	}
}
