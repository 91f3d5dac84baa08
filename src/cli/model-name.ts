import type { EndpointSpec } from "../model/endpoint.ts";

/** Who answers, as a person would say it: `policy oracle`, `openai, gpt-5`, `Qwen/Qwen3-8B at http://…`. */
export function modelNameOf(endpoint: EndpointSpec): string {
	switch (endpoint.type) {
		case "policy":
			return `policy ${endpoint.policy}${endpoint.trace === undefined ? "" : ` of ${endpoint.trace}`}`;
		case "named":
			return [endpoint.name, endpoint.model].filter((word) => word !== undefined).join(", ");
		case "url":
			return `${endpoint.model} at ${endpoint.baseUrl}`;
	}
}
