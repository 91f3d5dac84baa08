import type { AgentMessage } from "../../agent/agent.ts";
import { oneLine, printable } from "../terminal/style.ts";
import type { Part } from "./parts.ts";

const MAX_LINES = 12;

/** The conversation as OpenCode kept it: who said what, which tools ran with what, what they answered. */
export function transcriptPart(
	messages: readonly AgentMessage[],
	note: string | null,
	options: { full: boolean },
): Part {
	const lines = messages.flatMap((message) => {
		const role = typeof message.info.role === "string" ? message.info.role : "?";
		const said = message.parts.flatMap((part) => linesOf(part, options.full));
		return said.length === 0 ? [] : [`  ${oneLine(role)}`, ...said.map((line) => `    ${line}`)];
	});
	if (lines.length === 0 && note !== null) lines.push(`  ${printable(note)}`);
	return { title: "Transcript", lines };
}

function linesOf(part: Record<string, unknown>, full: boolean): string[] {
	switch (part.type) {
		case "text":
			return part.synthetic === true ? [] : shorten(textOf(part.text), full);
		case "reasoning":
			return shorten(textOf(part.text), full).map((line) => `~ ${line}`);
		case "tool":
			return toolLines(part, full);
		default:
			return [];
	}
}

function toolLines(part: Record<string, unknown>, full: boolean): string[] {
	const state = isRecord(part.state) ? part.state : {};
	const output = textOf(state.status === "error" ? state.error : state.output);
	return [
		`→ ${oneLine(textOf(part.tool))} ${inputOf(state.input, full)}`,
		...shorten(output, full).map((line) => `  ${state.status === "error" ? "error: " : ""}${line}`),
	];
}

/** The one argument that says most, or all of them. */
function inputOf(input: unknown, full: boolean): string {
	if (!isRecord(input)) return "";
	const telling = input.command ?? input.filePath ?? input.pattern ?? input.description;
	const text = !full && typeof telling === "string" ? telling : JSON.stringify(input);
	const line = printable(text).replaceAll("\n", "; ");
	return full || line.length <= 120 ? line : `${line.slice(0, 119)}…`;
}

function shorten(text: string, full: boolean): string[] {
	const lines = printable(text).trim().split("\n");
	if (lines.length === 1 && lines[0] === "") return [];
	const cropped = full ? lines : lines.map((line) => (line.length > 160 ? `${line.slice(0, 159)}…` : line));
	if (full || cropped.length <= MAX_LINES) return cropped;
	return [...cropped.slice(0, MAX_LINES), `… ${cropped.length - MAX_LINES} more lines (--full shows them)`];
}

function textOf(value: unknown): string {
	return typeof value === "string" ? value : "";
}

function isRecord(value: unknown): value is Record<string, unknown> {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}
