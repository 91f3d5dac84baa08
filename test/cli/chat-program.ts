import { Chat } from "../../src/cli/chat/chat.ts";
import type { ChatEvent, Partner } from "../../src/cli/chat/partner.ts";
import { processShell } from "../../src/cli/shell.ts";

/** The screen of a conversation whose agent does what is typed: for looking at it in a real terminal, without any agent. */
let seq = 0;
let texts = 0;
let tell: (event: ChatEvent) => void = () => {};
const closed = Promise.withResolvers<void>();
const told = (event: object) => {
	seq += 1;
	tell({ conversationId: "cnv_1", seq, at: 0, ...event } as ChatEvent);
};
const place = { type: "text", sessionId: "ses_1", isChild: false, messageId: "msg_1", kind: "text" } as const;
const part = (id: string, fields: object) =>
	told({
		type: "agent-event",
		name: "message.part.updated",
		properties: { part: { id, sessionID: "ses_1", ...fields } },
	});

/** `write <text>` streams it letter by letter; `tool`, `ask`, `question`, `fail` and `end` happen. */
async function play(text: string): Promise<void> {
	const [word = "", ...rest] = text.split(" ");
	const said = rest.join(" ").replaceAll("\\n", "\n");
	if (word === "write" || word === "begin") {
		texts += 1;
		for (let offset = 0; offset < said.length; offset += 7)
			tell({ ...place, partId: `prt_${texts}`, offset, text: said.slice(offset, offset + 7) });
		if (word === "begin") return;
		part(`prt_${texts}`, { type: "text", text: said, time: { start: 1, end: 2 } });
	}
	const state = { input: { command: said, filePath: "geese.txt" }, time: { start: 0, end: 1500 } };
	if (word === "tool")
		part("prt_t", {
			type: "tool",
			callID: "c",
			tool: "bash",
			state: {
				...state,
				status: "completed",
				output: "one\ntwo",
				metadata: { diff: "--- a\n+++ b\n-goose\n+geese" },
			},
		});
	if (word === "ask")
		told({
			type: "permission-ask",
			requestId: "per_1",
			permission: "bash",
			patterns: [said],
			input: { command: said },
		});
	if (word === "question")
		told({
			type: "question-ask",
			requestId: "que_1",
			questions: [{ question: "Which?", options: [{ label: "red" }, { label: "blue" }] }],
		});
	if (word === "end") {
		told({ type: "conversation-end", reason: "idle", failure: null, attempt: 1 });
		return closed.resolve();
	}
	if (word !== "ask" && word !== "question")
		told({
			type: "turn-end",
			messageId: "m",
			ended: "answered",
			text: "",
			error: word === "fail" ? { code: "x", message: said } : null,
		});
}

const over = () => told({ type: "turn-end", messageId: "m", ended: "answered", text: "", error: null });
const partner = {
	async follow(_id, onEvent, { signal }) {
		tell = onEvent;
		told({ type: "session-start", sessionId: "ses_1" });
		told({ type: "phase-start", phase: "agent" });
		signal.addEventListener("abort", () => closed.resolve());
		await closed.promise;
	},
	say: async (_id, text) => play(text),
	async interrupt() {
		told({ type: "interrupted", by: "me" });
		over();
	},
	async permit(_id, requestId, decision) {
		told({ type: "permission-end", requestId, reply: decision.reply, by: "me" });
		await play(`write decided ${JSON.stringify(decision)}`);
	},
	async answer(_id, requestId, answers) {
		told({ type: "question-end", requestId, by: "me" });
		await play(`write answered ${JSON.stringify(answers)}`);
	},
	setModel: async (_id, model) => told({ type: "model-set", model, by: "me" }),
	close: async () => closed.resolve(),
} as Partial<Partner> as Partner;

const chat = new Chat({
	...{ id: "cnv_1", partner, shell: processShell(), history: ["earlier"], verbosity: "lines", me: "me" },
	...{ sessionId: null, isReady: false, remember: () => {}, goodbye: "Good-bye." },
	...(process.argv[2] === undefined ? {} : { tickMs: Number(process.argv[2]) }),
});
const ended = await chat.run(0, []);
process.stdout.write(`ended: ${ended ?? "left"}\n`);
