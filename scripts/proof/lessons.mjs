/*
 * What the proof's model is taught: two tasks, each solved the way models really do, with all that makes a history come back as other
 * tokens than those that were sampled. A line is what the model says in one turn, as pieces of text: where two pieces meet, the
 * tokens are others than a tokenizer would choose.
 */

const WORKDIR = "/home/user/workdir";
const HELPED = "Read left.txt and right.txt and say what is in them.";

const call = (name, args) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;
const write = (file, word) => call("write", `{"content":  "${word}\\n",  "filePath": "${WORKDIR}/${file}"}`);

export const HELLO = {
	id: "hello",
	instruction: "Write the word hello into hello.txt\n",
	verify: ["grep -qx hello hello.txt"],
	solution: [{ tool: "write", path: "hello.txt", content: "hello\n" }],
};

export const PAIR = {
	id: "pair",
	instruction: "Put left into left.txt and right into right.txt, then let somebody else look at both\n",
	verify: ["grep -qx left left.txt", "grep -qx right right.txt"],
	solution: [
		{ tool: "write", path: "left.txt", content: "left\n" },
		{ tool: "write", path: "right.txt", content: "right\n" },
	],
};

/** Nothing that the model was taught: it is sure of no word, and a distribution that was cut or sharpened would show. */
export const UNTAUGHT = {
	id: "untaught",
	instruction: "Tell a story that nobody has taught you\n",
	verify: ["true"],
};

/** By what a session's first words contain: the lines of its turns. */
const LESSONS = [
	{
		asked: HELLO.instruction.trim(),
		lines: [
			// Text before a call, blank lines in between, and a tool that does not exist.
			["I look around first.\n\n\n", call("look_around", '{"path":  "."}')],
			// Arguments that break off.
			[call("write", `{"filePath": "${WORKDIR}/hello.txt", "content": "hel`).replace("}\n</", "\n</")],
			// Arguments that the tool does not know.
			["Once more.\n", call("write", `{"file": "hello.txt", "text":"hello"}`)],
			[
				'<tool_call>\n{"na',
				`me": "write", "arguments": {"content":  "hel`,
				`lo\\n",  "filePath": "${WORKDIR}/hello.txt"}}\n</tool_call>`,
			],
			["hello.txt holds the word.\n\n"],
		],
	},
	{
		asked: PAIR.instruction.trim(),
		lines: [
			["Both at once:\n\n", write("left.txt", "left"), "\n", write("right.txt", "right")],
			[call("task", `{"description": "look at both",  "prompt": "${HELPED}", "subagent_type": "general"}`)],
			["Both files are there, and somebody has looked.\n"],
		],
	},
	{
		asked: HELPED,
		lines: [
			[
				"I read them.\n\n",
				call("bash", `{"command":  "cat left.txt right.txt", "description": "Shows both files"}`),
			],
			["left.txt holds left,\n\nright.txt holds right.\n"],
		],
	},
];

/** The line for a request, as pieces of text; null where nothing was prepared. */
export function lineFor({ messages, tools = [] }) {
	if (tools.length === 0) return ["Words in files"];
	const asked = JSON.stringify(messages.find(({ role }) => role === "user")?.content ?? "");
	const said = messages.filter(({ role }) => role === "assistant").length;
	return LESSONS.find((lesson) => asked.includes(lesson.asked))?.lines[said] ?? null;
}
