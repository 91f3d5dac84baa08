import { foreignTool } from "./chat-shape.ts";
import {
	anything,
	either,
	flag,
	list,
	number,
	object,
	type Rule,
	reaches,
	schema,
	text,
	typed,
} from "./shape.ts";

const common = { type: text, cache_control: anything };
const said = object({ ...common, text, citations: anything });

const inline = object({ type: text, media_type: text, data: text });
const source = typed({ base64: inline, text: inline }, () => reaches("content at an address"));

const resultPart = typed({ text: said, image: object({ ...common, source }) });

const part = typed({
	text: said,
	image: object({ ...common, source }),
	document: object({ ...common, source, title: text, context: text, citations: anything }),
	thinking: object({ ...common, thinking: text, signature: text }),
	redacted_thinking: object({ ...common, data: text }),
	tool_use: object({ ...common, id: text, name: text, input: anything }),
	tool_result: object({
		...common,
		tool_use_id: text,
		content: either(text, list(resultPart)),
		is_error: flag,
	}),
});

const ownTool = object({ ...common, name: text, description: text, input_schema: schema, strict: flag });

/** Anthropic's own kinds of tools that the agent carries out: a shell, an editor, a screen. */
const CARRIED_OUT_HERE = /^(bash|text_editor|computer|memory)_\d+$/;

const tool = typed({ "": ownTool, custom: ownTool }, (value, path, leftOut) => {
	const { type } = value as { type?: unknown };
	return typeof type === "string" && CARRIED_OUT_HERE.test(type) ? value : foreignTool(value, path, leftOut);
});

export const messagesShape: Rule = object({
	model: text,
	messages: list(object({ role: text, content: either(text, list(part)) })),
	system: either(text, list(said)),
	tools: list(tool),
	tool_choice: object({ type: text, name: text, disable_parallel_tool_use: flag }),
	stream: flag,
	max_tokens: number,
	stop_sequences: list(text),
	thinking: object({ type: text, budget_tokens: number }),
});
