import { connect } from "node:net";
import { UsageError } from "../../errors.ts";
import { credentialOf, resolveEndpoint } from "../../gateway/catalog.ts";
import type { EndpointSpec } from "../../model/endpoint.ts";

/** Long enough for the other side of the world; a person waits no longer for bad news. */
const LIMIT_MS = 2_500;

/**
 * Nobody there is found out before boxes are opened. A connection is enough: an engine may be too busy to answer, and a
 * provider too careful to answer without a key.
 */
export async function requireEndpoint(
	spec: EndpointSpec,
	env: Record<string, string | undefined>,
): Promise<void> {
	// Where a stored credential leads is known to the store, and is found out by who holds it.
	if (spec.type === "policy" || credentialOf(spec) !== null) return;
	const endpoint = resolveEndpoint(spec, env);
	if (endpoint === "policy") return;
	const why = await troubleWith(new URL(endpoint.baseUrl));
	if (why === null) return;
	throw new UsageError(
		`No model answers at ${endpoint.baseUrl} (${why}). Start it, or correct --base-url or the endpoint's variables.`,
		"endpoint_unreachable",
	);
}

function troubleWith(url: URL): Promise<string | null> {
	const port = Number(url.port) || (url.protocol === "https:" ? 443 : 80);
	const socket = connect({ host: url.hostname.replace(/^\[|\]$/g, ""), port });
	return new Promise((resolve) => {
		const end = (why: string | null) => {
			socket.destroy();
			resolve(why);
		};
		socket.setTimeout(LIMIT_MS, () => end(`no connection within ${LIMIT_MS / 1000} s`));
		socket.once("connect", () => end(null));
		socket.once("error", (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
	});
}
