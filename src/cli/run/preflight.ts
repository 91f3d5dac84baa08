import { UsageError } from "../../errors.ts";
import { credentialOf, resolveEndpoint } from "../../gateway/catalog.ts";
import { troubleWith } from "../../gateway/upstream/reach.ts";
import type { EndpointSpec } from "../../model/endpoint.ts";

/** Nobody there is said at once to who waits for it, before anything is stored. */
export async function requireEndpoint(
	spec: EndpointSpec,
	env: Record<string, string | undefined>,
): Promise<void> {
	// Where a stored credential leads is known to the store, and is found out by who holds it.
	if (spec.type === "policy" || credentialOf(spec) !== null) return;
	const endpoint = resolveEndpoint(spec, env);
	if (endpoint === "policy") return;
	const why = await troubleWith(endpoint.baseUrl);
	if (why === null) return;
	throw new UsageError(
		`No model answers at ${endpoint.baseUrl} (${why}). Start it, or correct --base-url or the endpoint's variables.`,
		"endpoint_unreachable",
	);
}
