import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Log } from "../log.ts";
import { type McpDoor, mountMcp, openMcp } from "../mcp/http.ts";
import { answerBareRpc, mountOpenEnv, type OpenEnvDoor, openOpenEnv } from "../openenv/http.ts";
import { openWebSockets, type WebSocketOptions, type WebSockets } from "../openenv/websockets.ts";
import type { Paddock } from "../paddock.ts";

export interface DoorsOptions {
	log?: Log | undefined;
	sockets?: WebSocketOptions;
}

/** MCP and OpenEnv together: they share /mcp. Dispose before the server stops listening. */
export interface Doors extends AsyncDisposable {
	readonly mcp: McpDoor;
	readonly openEnv: OpenEnvDoor;
	mount(app: OpenAPIHono): void;
	readonly onUpgrade: WebSockets["onUpgrade"];
}

export function openDoors(paddock: Paddock, options: DoorsOptions = {}): Doors {
	const { log, sockets } = options;
	const openEnv = openOpenEnv(paddock, { log });
	const mcp = openMcp(paddock, { log, onDisconnect: openEnv.settings.onDisconnect });
	const webSockets = openWebSockets(openEnv, sockets);
	return {
		mcp,
		openEnv,
		mount(app) {
			mountOpenEnv(app, openEnv);
			mountMcp(app, mcp, (body, request) => answerBareRpc(openEnv, body, request));
		},
		onUpgrade: webSockets.onUpgrade,
		async [Symbol.asyncDispose]() {
			openEnv.pool.beginClosing();
			await webSockets[Symbol.asyncDispose]();
			await mcp[Symbol.asyncDispose]();
			openEnv[Symbol.dispose]();
		},
	};
}
