import { z } from "zod";

/** What a chat-completions request holds, as far as a scripted model reads it. Unknown fields are ignored, as engines do. */
const Part = z.looseObject({ type: z.string(), text: z.string().optional() });

const ToolCall = z.looseObject({
	id: z.string().optional(),
	function: z.looseObject({ name: z.string(), arguments: z.string().default("") }),
});

export const ChatMessage = z.looseObject({
	role: z.string(),
	content: z.union([z.string(), z.array(Part), z.null()]).optional(),
	reasoning: z.string().nullish(),
	reasoning_content: z.string().nullish(),
	tool_calls: z.array(ToolCall).nullish(),
});
export type ChatMessage = z.infer<typeof ChatMessage>;

export const ChatRequest = z.looseObject({
	model: z.string(),
	messages: z.array(ChatMessage).min(1),
	tools: z.array(z.looseObject({ function: z.looseObject({ name: z.string() }).optional() })).nullish(),
	stream: z.boolean().nullish(),
	stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
	max_tokens: z.int().nullish(),
	max_completion_tokens: z.int().nullish(),
	logprobs: z.boolean().nullish(),
	top_logprobs: z.int().min(0).max(20).nullish(),
	return_token_ids: z.boolean().nullish(),
	kv_transfer_params: z
		.looseObject({ prompt_token_ids: z.array(z.int().min(0)).min(1).optional() })
		.nullish(),
});
export type ChatRequest = z.infer<typeof ChatRequest>;

export function textOf(message: ChatMessage): string {
	if (typeof message.content === "string") return message.content;
	return (message.content ?? []).map((part) => part.text ?? "").join("");
}

export function reasoningOf(message: ChatMessage): string {
	return message.reasoning_content ?? message.reasoning ?? "";
}

export function toolNames(request: ChatRequest): string[] {
	return (request.tools ?? []).flatMap((tool) => tool.function?.name ?? []);
}
