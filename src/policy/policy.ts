import type { ModelCall } from "../model/call.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { Task } from "../model/task.ts";

/** What a scripted model is asked to play. */
export interface Role {
	policy: string;
	task: Task;
	/** For replay: the recorded calls, in order. */
	recorded?: () => AsyncIterable<ModelCall>;
}

/** The built-in scripted models, served as a real OpenAI-compatible endpoint on loopback. */
export interface PolicyServer extends AsyncDisposable {
	readonly baseUrl: string;
	readonly names: readonly string[];
	/** Registers a role; its endpoint answers until it is disposed of. */
	cast(role: Role): Promise<{ endpoint: Endpoint } & Disposable>;
}
