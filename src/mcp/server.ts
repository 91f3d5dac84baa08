import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import {
	CallToolRequestSchema,
	type CallToolResult,
	ErrorCode,
	ListToolsRequestSchema,
	McpError,
} from "@modelcontextprotocol/sdk/types.js";
import { RolloutError, UsageError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Paddock } from "../paddock.ts";
import { SERVER_INFO, toListedTool } from "../tools/listed-tool.ts";
import { toText } from "../tools/result.ts";
import { openLiveToolbox, type Toolbox } from "../tools/toolbox.ts";
import type { Tool, ToolContext } from "../tools/tools.ts";

const INSTRUCTIONS =
	"Runs the OpenCode agent on coding tasks in sandboxes and returns reward, tokens, transcript and files. run_rollout blocks and reports progress; start_rollout, get_state, subscribe_events and finalize_rollout do the same in short calls. endpoint scripted needs no model.";

export interface McpServerOptions {
	log?: Log | undefined;
	/** Where callers reach this server; absent over stdio. */
	origin?: string | undefined;
	/** Asked when a call's signal has fired: a cancelled call aborts its rollout, a vanished client may leave it running. */
	whenAbandoned?: () => "abort" | "detach";
	/** A cancelled call is never answered; its stream may be closed. */
	onCancelled?: (requestId: string | number) => void;
	/** Told of every call: what closes down may wait until an abandoned rollout has been told to stop. */
	onCall?: (settled: Promise<unknown>) => void;
}

/** An MCP server by the official SDK, ready to be connected to a transport. */
export function createMcpServer(paddock: Paddock, options: McpServerOptions = {}): Server {
	const tools = openLiveToolbox(paddock);
	const server = new Server(SERVER_INFO, { capabilities: { tools: {} }, instructions: INSTRUCTIONS });
	server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [...tools.values()].map(toListedTool) }));
	server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
		const tool = findTool(tools, params.name);
		const progressToken = params._meta?.progressToken;
		const context: ToolContext = {
			signal: extra.signal,
			whenAbandoned: options.whenAbandoned ?? (() => "abort"),
			door: "mcp",
			origin: options.origin,
			onProgress: (progress) => {
				if (progressToken === undefined) return;
				extra
					.sendNotification({ method: "notifications/progress", params: { progressToken, ...progress } })
					.catch((error: unknown) => options.log?.debug({ err: error }, "progress was not delivered"));
			},
		};
		extra.signal.addEventListener("abort", () => options.onCancelled?.(extra.requestId), { once: true });
		const answer = callTool(tool, params.arguments, context, options.log);
		options.onCall?.(answer);
		return answer;
	});
	return server;
}

function findTool(tools: Toolbox, name: string): Tool {
	const tool = tools.get(name);
	if (tool !== undefined) return tool;
	throw new McpError(
		ErrorCode.InvalidParams,
		`Unknown tool: ${JSON.stringify(name.slice(0, 100))}; known are ${[...tools.keys()].join(", ")}`,
	);
}

/** What the caller did wrong is an answer the model behind it can read; a bug of ours is an error of the protocol. */
async function callTool(
	tool: Tool,
	value: unknown,
	context: ToolContext,
	log: Log | undefined,
): Promise<CallToolResult> {
	try {
		const output = await tool.run(value, context);
		return { content: [{ type: "text", text: toText(output) }], structuredContent: output };
	} catch (error) {
		if (error instanceof UsageError || error instanceof RolloutError)
			return { isError: true, content: [{ type: "text", text: error.message }], _meta: { code: error.code } };
		if (!context.signal.aborted) log?.error({ err: error, tool: tool.name }, "bug in a tool");
		throw new McpError(ErrorCode.InternalError, "this is a bug on our side; the server's log has it");
	}
}
