import type { EndpointSpec } from "../../model/endpoint.ts";

/** Who answered, in a few words. */
export function modelOf(endpoint: EndpointSpec): string {
	if (endpoint.type === "policy") return endpoint.policy;
	if (endpoint.type === "named") return endpoint.model ?? endpoint.name;
	return endpoint.model;
}
