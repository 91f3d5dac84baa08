import { z } from "zod";
import type { Paddock } from "../paddock.ts";
import { liveTools } from "./live-tools.ts";
import { rolloutTools } from "./rollout-tools.ts";
import type { Tool } from "./tools.ts";

export type Toolbox = ReadonlyMap<string, Tool>;

/** Every tool, by its name. */
export function openToolbox(paddock: Paddock): Toolbox {
	return new Map([...rolloutTools(paddock), ...liveTools(paddock)].map((tool) => [tool.name, tool]));
}

type JsonSchema = { type: "object"; [key: string]: unknown };

/** Plain objects stay open for fields we may add, strict ones are closed; nothing refers elsewhere. */
export function toJsonSchema(schema: z.ZodType): JsonSchema {
	const { $schema: _, $defs = {}, ...json } = z.toJSONSchema(schema, { io: "input" });
	return { ...(inline(json, $defs) as object), type: "object" };
}

/** Not every client follows references; none of our schemas contains itself. */
function inline(node: unknown, definitions: Record<string, unknown>): unknown {
	if (Array.isArray(node)) return node.map((item) => inline(item, definitions));
	if (typeof node !== "object" || node === null) return node;
	if ("$ref" in node && typeof node.$ref === "string")
		return inline(definitions[node.$ref.replace("#/$defs/", "")], definitions);
	return Object.fromEntries(
		Object.entries(node)
			// The name of a definition, as opposed to a field of that name.
			.filter(([key, item]) => key !== "id" || typeof item !== "string")
			.map(([key, item]) => [key, inline(item, definitions)]),
	);
}
