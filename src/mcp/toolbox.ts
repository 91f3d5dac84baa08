import { z } from "zod";
import type { Paddock } from "../paddock.ts";
import { liveTools } from "./live-tools.ts";
import type { Tool } from "./mcp.ts";
import { rolloutTools } from "./rollout-tools.ts";

export type Toolbox = ReadonlyMap<string, Tool>;

/** Every tool, by its name. */
export function openToolbox(paddock: Paddock): Toolbox {
	return new Map([...rolloutTools(paddock), ...liveTools(paddock)].map((tool) => [tool.name, tool]));
}

/** Plain objects stay open for fields we may add, strict ones are closed. */
export function toJsonSchema(schema: z.ZodType): { type: "object"; [key: string]: unknown } {
	const { $schema: _, ...json } = z.toJSONSchema(schema, { io: "input", reused: "inline" });
	return { ...json, type: "object" };
}
