import type { Agent } from "../agent/agent.ts";
import type { KeptAgents } from "../agent/keeper/reached.ts";
import type { Refresher } from "../credential/refresher/refresher.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { Reach } from "../gateway/upstream/reach.ts";
import type { Live } from "../live/live.ts";
import type { PolicyServer } from "../policy/policy.ts";
import type { Backend } from "../sandbox/sandbox.ts";
import type { Store } from "../store/store.ts";
import type { Verify } from "../verify/verify.ts";
import type { ReadyBoxes } from "./boxes/ready-box.ts";
import type { Turnstiles } from "./turnstile.ts";

/** What the story needs of the world. */
export interface Deps {
	store: Store;
	/** Where text is told while it is being written. */
	live: Live;
	gateway: Gateway;
	agent: Agent;
	policies: PolicyServer;
	boxes: ReadyBoxes;
	kept: KeptAgents;
	verify: Verify;
	/** Refreshes the logins that rollouts hold. */
	refresher: Refresher;
	/** Whether an endpoint is there at all, known before a box is opened. */
	reach: Reach;
	/** At most so many rollouts work against one endpoint at a time. */
	endpointSlots: Turnstiles;
	/** And as many turns of conversations: neither keeps the other waiting. */
	turnSlots: Turnstiles;
	/** The most that the trace of one rollout may take on disk. */
	maxTraceBytes: number;
	backend(name: string): Promise<Backend>;
	/** For the endpoint catalog. */
	env: Record<string, string | undefined>;
	warn(message: string): void;
}
