import type { Duplex } from "node:stream";
import type { CallSummary, ModelCall } from "../model/call.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { Failure } from "../model/failure.ts";
import type { Sampling } from "../model/request.ts";
import type { Budget } from "../model/task.ts";

/** Where a tap's calls go for keeping. `write` resolves when the call is on disk. */
export interface CallSink {
	write(call: ModelCall): Promise<void>;
}

export interface TapOptions {
	rolloutId: string;
	attempt: number;
	/** Only connections from this box may use the key. */
	boxId: string;
	/** The box cannot hand us its connections: its key is also good over TCP (`listen`). */
	overTcp?: boolean;
	/** Boxes that were booted ahead of time already hold their key; else a new one is made. */
	key?: string;
	endpoint: Endpoint;
	/** The agent may choose among these of the endpoint; without them the endpoint's own model is the only one. */
	models?: readonly string[];
	sampling: Sampling;
	budget: Budget;
	/** Absent in black_box mode: calls pass, counted but not kept. */
	sink?: CallSink;
	onCallStart?: (call: { index: number; purpose: string }) => void;
	onCallEnd?: (call: CallSummary) => void;
	/** A budget was used up or a guard tripped: the rollout has to end. Called at most once. */
	onStop?: (stop: TapStop) => void;
}

/** Why the gateway wants a rollout to end. */
export type TapStop = { type: "budget"; what: string } | { type: "failure"; failure: Failure };

/** The gateway's object for one rollout: key, budgets, calls so far. */
export interface Tap extends AsyncDisposable {
	readonly key: string;
	readonly counts: { calls: number; promptTokens: number; completionTokens: number };
	/** The true upstream error, so that a provider's 500 is never reported as "agent exited". */
	readonly lastUpstreamError: Failure | null;
	readonly stop: TapStop | null;
	/** Calls from now on go to this model, as the endpoint calls it. What was said so far is another model's tokens. */
	setModel(model: string): void;
	/** Cuts every call in flight, upstream too; later calls get 401. */
	revoke(): Promise<void>;
}

/** Our host-side LLM endpoint. It keeps the real key and captures every call. */
export interface Gateway extends AsyncDisposable {
	/** A connection out of a box; HTTP is spoken on it. */
	accept(connection: Duplex, boxId: string): void;
	/** For boxes that cannot hand us their connections: also listen on TCP. Returns the base URL. */
	listen(host: string, port: number): Promise<string>;
	openTap(options: TapOptions): Tap;
	/** Answers calls made with `key` from `boxId` by itself, without any upstream: to warm up an agent. Dispose to end. */
	prime(boxId: string, key: string): Disposable;
}
