import { expect, test } from "vitest";
import type { ChatEvent } from "../../src/cli/chat/partner.ts";
import { Story } from "../../src/cli/chat/story.ts";
import type { Verbosity } from "../../src/cli/chat/tools.ts";

const plain = ((_colour: string, text: string) => text) as ConstructorParameters<typeof Story>[0]["paint"];
const happened = (body: object) => ({ conversationId: "cnv_1", seq: 1, at: 1, ...body }) as ChatEvent;
const tool = (status: string) =>
	happened({
		...{ type: "agent-event", name: "message.part.updated" },
		properties: {
			part: {
				...{ id: "prt_1", sessionID: "ses", type: "tool", callID: "call_1", tool: "bash" },
				state: {
					...{ status, input: { command: "ls" }, output: "one\ntwo", title: "ls" },
					time: { start: 0, end: 1_500 },
				},
			},
		},
	});

function look(verbosity: Verbosity) {
	const lines: string[] = [];
	const story = new Story({ paint: plain, print: (...more) => lines.push(...more), verbosity, me: "ada" });
	return { story, lines };
}

test.each([
	["silent", { running: 0, kept: [] }],
	["active", { running: 1, kept: [] }],
	["lines", { running: 1, kept: [/✓ bash +ls/] }],
	["verbose", { running: 1, kept: [/✓ bash +ls/, /one/, /two/] }],
] as [Verbosity, { running: number; kept: RegExp[] }][])(
	"%s shows of a tool what it should, while it runs and afterwards",
	(verbosity, { running, kept }) => {
		const { story, lines } = look(verbosity);
		story.take(tool("running"));
		expect(story.running).toHaveLength(running);
		story.take(tool("completed"));
		expect(story.running).toEqual([]);
		expect(lines.filter((line) => line !== "")).toHaveLength(kept.length);
		for (const pattern of kept) expect(lines.join("\n")).toMatch(pattern);
	},
);

test("what another worker's agent asked is asked no longer, and what others allow for always is said", () => {
	const { story, lines } = look("lines");
	const ask = { type: "permission-ask", requestId: "per_1", permission: "bash", patterns: ["ls"] };
	story.take(happened(ask));
	expect(story.asks).toHaveLength(1);
	story.take(happened({ type: "conversation-start", attempt: 2, worker: "w2" }));
	expect(story.asks).toEqual([]);
	const always = { type: "permission-always", requestId: "per_1", permission: "bash", patterns: ["ls *"] };
	story.take(happened({ ...always, by: "ada" }));
	expect(lines).toEqual([]);
	story.take(happened({ ...always, by: "ben" }));
	expect(lines.join("\n")).toContain("Allowed from now on: ls *");
});
