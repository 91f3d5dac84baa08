import { oneLine, type Paint, printable } from "../terminal/style.ts";

/** How much is shown of what tools do: nothing; only while they run; a line that stays; their output, too. */
export const VERBOSITIES = ["silent", "active", "lines", "verbose"] as const;
export type Verbosity = (typeof VERBOSITIES)[number];

/** A tool call as OpenCode tells it. */
export interface ToolPart {
	callID: string;
	tool: string;
	state: {
		status: "pending" | "running" | "completed" | "error";
		input?: Record<string, unknown>;
		title?: string;
		output?: string;
		error?: string;
		metadata?: Record<string, unknown>;
		time?: { start?: number; end?: number };
	};
}

const OUTPUT_LINES = 20;

/** `bash  npm test` */
export function describeTool({ tool, state }: ToolPart): string {
	const { command, filePath, pattern, url, description, path } = state.input ?? {};
	const what = [command, filePath, pattern, url, path, state.title, description].find(
		(value) => typeof value === "string" && value !== "",
	);
	return oneLine(`${tool}  ${what ?? ""}`).trimEnd();
}

/** What stays on the screen of a call that is over. */
export function toolLines(part: ToolPart, verbosity: Verbosity, paint: Paint): string[] {
	if (verbosity === "silent" || verbosity === "active") return [];
	const { status, error = "", output = "" } = part.state;
	const isGood = status === "completed";
	const mark = isGood ? paint("green", "✓") : paint("red", "✗");
	const line = `  ${mark} ${paint("dim", `${describeTool(part)}${tookOf(part)}`)}`;
	if (!isGood) return [line, ...inset(error, 3, paint)];
	return verbosity === "verbose" ? [line, ...inset(output, OUTPUT_LINES, paint)] : [line];
}

function tookOf({ state: { time } }: ToolPart): string {
	if (time?.start === undefined || time.end === undefined) return "";
	return `  ${((time.end - time.start) / 1000).toFixed(1)} s`;
}

function inset(text: string, most: number, paint: Paint): string[] {
	const lines = printable(text).trimEnd().split("\n");
	const shown = lines.slice(0, most).map((line) => paint("dim", `    ${line}`));
	return lines.length > most ? [...shown, paint("dim", `    … ${lines.length - most} more lines`)] : shown;
}
