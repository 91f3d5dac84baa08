import type { OpenAPIHono } from "@hono/zod-openapi";
import { answerPermission, answerQuestion, sendMessage } from "../api/commands.ts";
import type { Command } from "../model/command.ts";
import { type Door, requireRow } from "./door.ts";
import { mount } from "./mount.ts";
import { ProblemError } from "./problem.ts";

export function mountCommands(app: OpenAPIHono, door: Door): void {
	mount(app, sendMessage, ({ params, body }) => post(door, params.id, { type: "send", ...body }));

	mount(app, answerPermission, ({ params, body }) => {
		const { reply, by, message } = body;
		const { requestId } = params;
		return post(door, params.id, {
			type: "permission",
			requestId,
			reply,
			by,
			...(message === undefined ? {} : { message }),
		});
	});

	mount(app, answerQuestion, ({ params, body }) =>
		post(door, params.id, { type: "question", requestId: params.requestId, ...body }),
	);
}

async function post(door: Door, id: string, command: Command): Promise<{ accepted: true }> {
	await requireRow(door, id);
	if (await door.paddock.command(id, command)) return { accepted: true };
	throw new ProblemError(409, "rollout_ended", `rollout ${id} has ended and hears nothing any more`);
}
