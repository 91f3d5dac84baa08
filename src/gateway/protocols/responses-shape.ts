import { foreignTool } from "./chat-shape.ts";
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
	schema,
	text,
	typed,
} from "./shape.ts";

const said = object({ type: text, text, annotations: anything });

const part = typed({
	input_text: said,
	output_text: said,
	summary_text: said,
	reasoning_text: said,
	refusal: object({ type: text, refusal: text }),
	input_image: object({ type: text, image_url: inlineData, detail: text }),
	input_file: object({ type: text, file_data: inlineData, filename: text }),
	input_audio: object({ type: text, input_audio: object({ data: text, format: text }) }),
});

const words = either(text, list(part));
const common = { type: text, id: either(text, nothing), status: either(text, nothing) };
const message = object({ ...common, role: text, content: words });
const call = { ...common, call_id: text, name: text };
const output = object({ ...common, call_id: text, output: words });

/** References to what a provider has stored are not here: it may be somebody else's. */
const item = typed({
	"": message,
	message,
	function_call: object({ ...call, arguments: text }),
	function_call_output: output,
	custom_tool_call: object({ ...call, input: text }),
	custom_tool_call_output: output,
	reasoning: object({
		...common,
		summary: list(part),
		content: either(list(part), nothing),
		encrypted_content: either(text, nothing),
	}),
});

const tool = typed(
	{
		function: object({
			type: text,
			name: text,
			description: text,
			parameters: schema,
			strict: either(flag, nothing),
		}),
		custom: object({ type: text, name: text, description: text, format: anything }),
	},
	foreignTool,
);

export const responsesShape: Rule = object({
	model: text,
	input: either(text, list(item)),
	instructions: either(text, nothing),
	tools: list(tool),
	tool_choice: either(text, object({ type: text, name: text })),
	parallel_tool_calls: flag,
	stream: flag,
	store: flag,
	include: list(text),
	max_output_tokens: number,
	reasoning: object({ effort: text, summary: text }),
	text: object({
		verbosity: text,
		format: object({ type: text, name: text, description: text, schema, strict: flag }),
	}),
	truncation: text,
});
