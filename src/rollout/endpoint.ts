import { RolloutError, UsageError } from "../errors.ts";
import { resolveEndpoint } from "../gateway/catalog.ts";
import type { ModelCall } from "../model/call.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { Rollout } from "../model/rollout.ts";
import { readCalls } from "../store/trace/trace-log.ts";
import type { Deps } from "./deps.ts";

/** Where this rollout's calls go: a scripted model of our own, or an endpoint of the catalog or the caller. */
export async function castEndpoint(
	rollout: Rollout,
	deps: Deps,
): Promise<{ endpoint: Endpoint } & Disposable> {
	const spec = rollout.request.endpoint;
	if (spec.type === "policy") return await castPolicy(spec.policy, spec.trace, rollout, deps);
	try {
		const apiKey = await deps.store.secret(rollout.id);
		const endpoint = resolveEndpoint(apiKey === null ? spec : { ...spec, apiKey }, deps.env);
		if (endpoint === "policy") return await castPolicy("scripted", undefined, rollout, deps);
		return { endpoint, [Symbol.dispose]: () => {} };
	} catch (error) {
		if (!(error instanceof UsageError)) throw error;
		throw new RolloutError("provider", "endpoint_not_configured", error.message, { cause: error });
	}
}

async function castPolicy(policy: string, trace: string | undefined, rollout: Rollout, deps: Deps) {
	const { task } = rollout.request;
	if (trace === undefined) return await deps.policies.cast({ policy, task });
	const source = await deps.store.row(trace);
	if (source === null)
		throw new RolloutError("task", "unknown_trace", `there is no rollout ${trace} to replay`);
	const recorded = (): AsyncIterable<ModelCall> =>
		readCalls(() => deps.store.readTrace(source.id, source.attempt));
	return await deps.policies.cast({ policy, task, recorded });
}
