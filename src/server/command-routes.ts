import type { OpenAPIHono } from "@hono/zod-openapi";
import { answerPermission, answerQuestion, interruptRollout, sendMessage } from "../api/commands.ts";
import type { Command } from "../model/command.ts";
import { type HttpDoor, requireRow } from "./http-door.ts";
import { mount } from "./mount.ts";

export function mountCommands(app: OpenAPIHono, door: HttpDoor): void {
	mount(app, sendMessage, ({ params, body: { messageId, ...said } }) =>
		post(door, params.id, { type: "send", ...said, id: messageId }),
	);

	mount(app, interruptRollout, ({ params, body }) => post(door, params.id, { type: "interrupt", ...body }));

	mount(app, answerPermission, ({ params, body }) =>
		post(door, params.id, { type: "permission", requestId: params.requestId, ...body }),
	);

	mount(app, answerQuestion, ({ params, body }) =>
		post(door, params.id, { type: "question", requestId: params.requestId, ...body }),
	);
}

async function post(door: HttpDoor, id: string, command: Command): Promise<{ accepted: true }> {
	await requireRow(door, id);
	await door.paddock.command(id, command);
	return { accepted: true };
}
