import type { KeptAgent } from "../../model/kept-agent.ts";
import type { ServeConversation, ServeConversationOptions } from "../serve/conversation.ts";

/** The agents that are kept on this machine, outside any box. */
export interface KeptAgents {
	/** Running when it resolves. */
	reach(name: string): Promise<ReachedAgent>;
}

/** In the home of one whose server is on another machine: where it works there. */
export const WORK_THERE = "work-there";

/** A kept agent that runs, whichever process of this machine keeps it. Letting go of it does not end it. */
export interface ReachedAgent extends Disposable {
	/** As it was when it started. */
	readonly agent: KeptAgent;
	/** Fires, with a sentence as its reason, when it is to run no longer. A server that only died is started again. */
	readonly over: AbortSignal;
	/** Closes when the server ends. */
	open(options: ServeConversationOptions): Promise<ServeConversation>;
}
