import { z } from "zod";
import { API, IdParams, route } from "./route.ts";

const tag = "commands";
const refusals = { 404: "No rollout has this id", 409: "The rollout has ended" };

export const by = z.string().min(1).max(100).default("http").describe("Who says it; goes on the record");
export const requestId = z.string().regex(/^[A-Za-z0-9_.-]{1,200}$/);

export const Accepted = z.object({ accepted: z.literal(true) }).meta({ id: "Accepted" });

export const MessageBody = z
	.strictObject({
		text: z.string().min(1).max(1_000_000),
		messageId: z
			.string()
			.min(1)
			.max(200)
			.optional()
			.describe("Your own name for it: sent twice under one name, it is heard once"),
		by,
	})
	.meta({ id: "MessageSend" });

export const InterruptBody = z
	.strictObject({ text: z.string().min(1).max(1_000_000).optional(), by })
	.meta({ id: "Interrupt" });

export const PermissionBody = z
	.strictObject({
		reply: z.enum(["once", "always", "reject"]),
		message: z.string().max(10_000).optional(),
		by,
	})
	.meta({ id: "PermissionAnswer" });

export const QuestionBody = z
	.strictObject({
		answers: z
			.array(z.array(z.string().max(10_000)).max(100))
			.max(100)
			.nullable(),
		by,
	})
	.meta({ id: "QuestionAnswer" });

export const sendMessage = route({
	name: "sendMessage",
	method: "post",
	path: `${API}/rollouts/{id}/messages`,
	tag,
	summary: "Say something more to a working agent",
	params: IdParams,
	body: MessageBody,
	reply: Accepted,
	refusals,
});

export const interruptRollout = route({
	name: "interruptRollout",
	method: "post",
	path: `${API}/rollouts/{id}/interrupt`,
	tag,
	summary: "Stop what the agent is doing; with a text it goes on from there, without one its work is over",
	params: IdParams,
	body: InterruptBody,
	reply: Accepted,
	refusals,
});

export const answerPermission = route({
	name: "answerPermission",
	method: "post",
	path: `${API}/rollouts/{id}/permissions/{requestId}`,
	tag,
	summary: "Answer a permission request",
	params: IdParams.extend({ requestId }),
	body: PermissionBody,
	reply: Accepted,
	refusals,
});

export const answerQuestion = route({
	name: "answerQuestion",
	method: "post",
	path: `${API}/rollouts/{id}/questions/{requestId}`,
	tag,
	summary: "Answer a question the agent asked; null declines",
	params: IdParams.extend({ requestId }),
	body: QuestionBody,
	reply: Accepted,
	refusals,
});
