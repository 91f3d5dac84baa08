import { type HeldCredential, holdCredential } from "../credential/hold.ts";
import { holdFromPool } from "../credential/pool.ts";
import { resolveBy } from "../credential/resolver.ts";
import { LoginTokens } from "../credential/tokens.ts";
import { type Waiting, whenFree } from "../credential/wait.ts";
import { RolloutError, UsageError } from "../errors.ts";
import {
	type CredentialAsk,
	credentialOf,
	type NamedSpec,
	resolveCredential,
	resolveEndpoint,
} from "../gateway/catalog.ts";
import type { ModelCall } from "../model/call.ts";
import type { Endpoint, EndpointSpec } from "../model/endpoint.ts";
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
export async function castEndpoint(submitted: Rollout, deps: Deps, waiting?: Waiting): Promise<CastEndpoint> {
	const rollout = await resolved(submitted, deps);
	const spec = rollout.request.endpoint;
	if (spec.type === "policy") return await castPolicy(spec.policy, spec.trace, rollout, deps);
	return await asProviderFailure(async () => {
		const ask = credentialOf(spec);
		if (ask !== null) return await castCredential(ask, spec as NamedSpec, rollout, deps, waiting);
		const endpoint = await plainEndpoint(spec, rollout, deps);
		if (endpoint === "policy") return await castPolicy("scripted", undefined, rollout, deps);
		return { endpoint, [Symbol.dispose]: () => {} };
	});
}

/** Nobody there is found out before a box is opened. Which of a pool it will be is not known yet. */
export async function requireReachable(rollout: Rollout, deps: Deps, signal: AbortSignal): Promise<void> {
	const spec = rollout.request.endpoint;
	if (spec.type === "policy") return;
	const baseUrl = await asProviderFailure(async () => {
		const ask = credentialOf(spec);
		if (ask?.type === "cred") return (await deps.store.credentials.find(ask.name))?.endpoint?.baseUrl;
		const endpoint = ask === null ? await plainEndpoint(spec, rollout, deps) : "policy";
		return endpoint === "policy" ? undefined : endpoint.baseUrl;
	});
	if (baseUrl !== undefined) await deps.reach.require(baseUrl, signal);
}

type PlainSpec = Exclude<EndpointSpec, { type: "policy" }>;

async function plainEndpoint(spec: PlainSpec, rollout: Rollout, deps: Deps): Promise<Endpoint | "policy"> {
	const apiKey = await deps.store.secret(rollout.id);
	return resolveEndpoint(apiKey === null ? spec : { ...spec, apiKey }, deps.env);
}

/** Refused with a code of its own; whatever else the endpoint is not, it is not configured. */
const OWN_CODES = new Set([
	...["credential_unresolved", "credential_dead", "credential_quarantined", "planting_refused"],
]);

export async function asProviderFailure<T>(act: () => Promise<T>): Promise<T> {
	try {
		return await act();
	} catch (error) {
		if (!(error instanceof UsageError)) throw error;
		// Others are using it just now; later there may be room.
		if (error.code === "credential_held")
			throw new RolloutError("provider", error.code, error.message, { cause: error, retryable: true });
		if (OWN_CODES.has(error.code))
			throw new RolloutError("provider", error.code, error.message, { cause: error });
		throw new RolloutError("provider", "endpoint_not_configured", error.message, { cause: error });
	}
}

/** Key and tokens stay on this side: the box gets a key of the gateway's, as for any endpoint. */
async function castCredential(
	ask: CredentialAsk,
	spec: NamedSpec,
	rollout: Rollout,
	deps: Deps,
	waiting: Waiting | undefined,
): Promise<CastEndpoint> {
	const { credentials } = deps.store;
	await using stack = new AsyncDisposableStack();
	const held = stack.use(await whenFree(() => hold(ask, rollout, deps), waiting));
	const { credential, secret } = held.hold;
	let endpoint: Endpoint;
	if (credential.login === null) endpoint = resolveCredential(spec, credential, secret);
	else {
		const tokens = stack.use(new LoginTokens(credentials, held, deps.refresher));
		endpoint = { ...resolveCredential(spec, credential, await tokens.fresh()), tokens };
	}
	const owned = stack.move();
	return { endpoint, lost: held.lost, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

export async function hold(ask: CredentialAsk, rollout: Rollout, deps: Deps): Promise<HeldCredential> {
	const { credentials } = deps.store;
	const user = `${rollout.id} ${rollout.attempt}`;
	const { type, name } = ask;
	if (type === "pool") return await holdFromPool(credentials, name, user);
	return await holdCredential(credentials, name, user);
}

/** The rollout with the credential that the resolver names, where it was told to ask for one. */
export async function resolved(rollout: Rollout, deps: Deps): Promise<Rollout> {
	const { endpoint } = rollout.request;
	return await asProviderFailure(async () => {
		const ask = credentialOf(endpoint);
		if (ask?.type !== "resolve") return rollout;
		const name = await resolve(ask.name, rollout, deps);
		return { ...rollout, request: { ...rollout.request, endpoint: { ...(endpoint as NamedSpec), name } } };
	});
}

async function resolve(ask: string, rollout: Rollout, deps: Deps): Promise<string> {
	const { task, labels } = rollout.request;
	const resolver = deps.env.PADDOCK_CREDENTIAL_RESOLVER;
	if (!resolver)
		throw new UsageError("PADDOCK_CREDENTIAL_RESOLVER is not set where this runs", "credential_unresolved");
	const question = { ask, rolloutId: rollout.id, attempt: rollout.attempt, taskId: task.id, labels };
	return await resolveBy(resolver, question);
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
