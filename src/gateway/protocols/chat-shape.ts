import {
	anything,
	either,
	flag,
	inlineData,
	list,
	nothing,
	number,
	object,
	type Rule,
	reaches,
	schema,
	text,
	typed,
} from "./shape.ts";

const cache = { cache_control: anything };

const part = typed({
	text: object({ type: text, text, ...cache }),
	refusal: object({ type: text, refusal: text }),
	image_url: object({
		type: text,
		image_url: either(inlineData, object({ url: inlineData, detail: text })),
		...cache,
	}),
	input_audio: object({ type: text, input_audio: object({ data: text, format: text }), ...cache }),
	file: object({ type: text, file: object({ file_data: inlineData, filename: text }), ...cache }),
});

const toolCall = object({
	id: text,
	index: number,
	type: text,
	function: object({ name: text, arguments: text }),
	custom: object({ name: text, input: text }),
	extra_content: anything,
});

const message = object({
	role: text,
	content: either(text, nothing, list(part)),
	name: text,
	tool_calls: list(toolCall),
	tool_call_id: text,
	reasoning: text,
	reasoning_content: text,
	refusal: either(text, nothing),
	...cache,
});

/** Tools that the agent itself carries out; any other type runs at the provider. */
export const foreignTool: Rule = (value) => {
	const { type } = value as { type?: unknown };
	return reaches(`the tool ${(JSON.stringify(type) ?? "without a type").slice(0, 50)}`);
};

const fn = object({ name: text, description: text, parameters: schema, strict: either(flag, nothing) });

const tool = typed(
	{
		function: object({ type: text, function: fn, ...cache }),
		custom: object({ type: text, custom: object({ name: text, description: text, format: anything }) }),
	},
	foreignTool,
);

/**
 * Sampling, token flags, other models and whatever names another machine are not here: the rollout says how is sampled,
 * the gateway what is handed out.
 */
export const chatShape: Rule = object({
	model: text,
	messages: list(message),
	tools: list(tool),
	tool_choice: either(text, object({ type: text, function: object({ name: text }) })),
	parallel_tool_calls: flag,
	stream: flag,
	stream_options: object({ include_usage: flag }),
	max_tokens: number,
	max_completion_tokens: number,
	stop: either(text, list(text)),
	response_format: object({
		type: text,
		json_schema: object({ name: text, description: text, schema, strict: flag }),
	}),
	reasoning_effort: text,
	verbosity: text,
});
