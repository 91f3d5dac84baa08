/** What a watcher may say to a live agent, in a rollout or a conversation. `by` goes on the record. */
export type Command =
	| {
			type: "send";
			text: string;
			by: string /** The sender's own name for it: said once, however often it is sent. */;
			id?: string | undefined;
	  }
	| {
			type: "permission";
			requestId: string;
			reply: "once" | "always" | "reject";
			message?: string | undefined;
			by: string;
	  }
	| { type: "question"; requestId: string; answers: string[][] | null; by: string }
	/** Stops what the agent is doing; with a text it goes on from there. */
	| { type: "interrupt"; text?: string | undefined; by: string }
	/** For what is sent from now on, as its endpoint calls it. */
	| { type: "model"; model: string; by: string };
