import { holdCredential } from "../credential/hold.ts";
import { RolloutError, UsageError } from "../errors.ts";
import { credentialOf, type NamedSpec, resolveCredential, resolveEndpoint } from "../gateway/catalog.ts";
import type { ModelCall } from "../model/call.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { Rollout } from "../model/rollout.ts";
import { readCalls } from "../store/trace/trace-log.ts";
import type { Deps } from "./deps.ts";

/** An endpoint, and what has to be given back when no more calls go there. */
export type CastEndpoint = {
	endpoint: Endpoint;
	/** Fires when it may not be used any longer. */
	lost?: AbortSignal | undefined;
} & (Disposable | AsyncDisposable);

/** Where this rollout's calls go: a scripted model of our own, or an endpoint of the catalog or the caller. */
export async function castEndpoint(rollout: Rollout, deps: Deps): Promise<CastEndpoint> {
	const spec = rollout.request.endpoint;
	if (spec.type === "policy") return await castPolicy(spec.policy, spec.trace, rollout, deps);
	try {
		const label = credentialOf(spec);
		if (label !== null) return await castCredential(label, spec as NamedSpec, rollout, deps);
		const apiKey = await deps.store.secret(rollout.id);
		const endpoint = resolveEndpoint(apiKey === null ? spec : { ...spec, apiKey }, deps.env);
		if (endpoint === "policy") return await castPolicy("scripted", undefined, rollout, deps);
		return { endpoint, [Symbol.dispose]: () => {} };
	} catch (error) {
		if (!(error instanceof UsageError)) throw error;
		// Others are using it just now; later there may be room.
		if (error.code === "credential_held")
			throw new RolloutError("provider", error.code, error.message, { cause: error, retryable: true });
		throw new RolloutError("provider", "endpoint_not_configured", error.message, { cause: error });
	}
}

/** The key stays on this side: the box gets a key of the gateway's, as for any endpoint. */
async function castCredential(
	label: string,
	spec: NamedSpec,
	rollout: Rollout,
	deps: Deps,
): Promise<CastEndpoint> {
	const held = await holdCredential(deps.store.credentials, label, `${rollout.id} ${rollout.attempt}`);
	try {
		const endpoint = resolveCredential(spec, held.hold.credential, held.hold.secret);
		return { endpoint, lost: held.lost, [Symbol.asyncDispose]: () => held[Symbol.asyncDispose]() };
	} catch (error) {
		await held[Symbol.asyncDispose]();
		throw error;
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
