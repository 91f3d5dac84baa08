import { oneLine, type Paint, printable } from "../terminal/style.ts";
import type { Ask } from "./story.ts";

const MOST_LINES = 12;

/** What somebody has to decide, and with which keys. */
export function askCard(ask: Ask, waiting: number, paint: Paint): string[] {
	const who = ask.isChild ? "A sub-agent" : "The agent";
	const more = waiting > 1 ? paint("dim", `  (${waiting - 1} more after this)`) : "";
	if (ask.type === "question-ask") return questionCard(ask, who, more, paint);
	const title = `${paint("yellow", "?")} ${who} wants to use ${paint("bold", oneLine(ask.permission))}${more}`;
	const keys = `  ${paint("bold", "y")} once   ${paint("bold", "a")} always   ${paint("bold", "n")} no, with a reason`;
	return ["", title, ...inputOf(ask).map((line) => `    ${line}`), keys];
}

function inputOf({ input = {}, patterns }: Extract<Ask, { type: "permission-ask" }>): string[] {
	const { command, filePath, filepath, diff } = input;
	const shown = [command, filePath ?? filepath, diff].filter((value) => typeof value === "string");
	const lines = (shown.length > 0 ? shown : patterns).flatMap((text) =>
		printable(text as string).split("\n"),
	);
	return lines.length > MOST_LINES
		? [...lines.slice(0, MOST_LINES), `… ${lines.length - MOST_LINES} more lines`]
		: lines;
}

function questionCard(
	{ questions }: Extract<Ask, { type: "question-ask" }>,
	who: string,
	more: string,
	paint: Paint,
): string[] {
	const lines = questions.flatMap((question) => {
		const { question: text = "", options = [] } = question as {
			question?: string;
			options?: { label?: string; description?: string }[];
		};
		return [
			`  ${oneLine(text)}`,
			...options.map(
				({ label = "", description = "" }, index) =>
					`    ${paint("bold", String(index + 1))} ${oneLine(label)}  ${paint("dim", oneLine(description))}`,
			),
		];
	});
	return [
		"",
		`${paint("yellow", "?")} ${who} asks${more}`,
		...lines,
		paint("dim", "  a number, your own words, or Esc to decline"),
	];
}

/** What was typed, as labels: a number stands for its option. */
export function toAnswers({ questions }: Extract<Ask, { type: "question-ask" }>, text: string): string[][] {
	const words = text.split(",").map((word) => word.trim());
	return questions.map((question, index) => {
		const { options = [], multiple } = question as { options?: { label?: string }[]; multiple?: boolean };
		const said = questions.length === 1 ? (multiple ? words : [text.trim()]) : [words[index] ?? ""];
		return said.map((word) => options[Number(word) - 1]?.label ?? word);
	});
}
