import type { Tool as ListedTool } from "@modelcontextprotocol/sdk/types.js";
import { VERSION } from "../version.ts";
import { toJsonSchema } from "./toolbox.ts";
import type { Tool } from "./tools.ts";

export const SERVER_INFO = { name: "paddock", title: "Paddock", version: VERSION };

/** A tool as MCP lists it; OpenEnv's bare JSON-RPC lists the same. */
export function toListedTool(tool: Tool): ListedTool {
	return {
		name: tool.name,
		title: tool.title,
		description: tool.description,
		inputSchema: toJsonSchema(tool.input),
		outputSchema: toJsonSchema(tool.output),
		annotations: { readOnlyHint: tool.readOnly, destructiveHint: false, openWorldHint: !tool.readOnly },
	};
}
