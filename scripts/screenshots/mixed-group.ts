import { DatabaseSync } from "node:sqlite";
import type { Client } from "../../src/client/client.ts";
import type { ModelCall } from "../../src/model/call.ts";
import type { EventBody } from "../../src/model/event.ts";
import type { Store } from "../../src/store/store.ts";
import { TraceWriter } from "../../src/store/trace/trace-log.ts";
import { aCall } from "../../test/export/calls.ts";

/** What each member does: text before a call, the tool, what goes in, what comes out. */
type Step = [say: string, tool: string, input: Record<string, string>, output: string];

const LOOK: Step = [
	"I will look at the tests first.",
	"bash",
	{ command: "./js test/run.mjs" },
	"ok 1 - 90 s is 1m 30s\nnot ok 2 - 0 s is 0s\nnot ok 3 - blanks between units\n",
];
const READ: Step = ["", "read", { filePath: "src/duration.mjs" }, "export function format(seconds) { … }\n"];
const FLOOR: Step = [
	"Units are rounded where they must be cut off.",
	"edit",
	{
		filePath: "src/duration.mjs",
		oldString: "Math.round(rest / size)",
		newString: "Math.floor(rest / size)",
	},
	"Edit applied.",
];
const ZERO: Step = [
	"Zero seconds give an empty text.",
	"edit",
	{
		filePath: "src/duration.mjs",
		oldString: 'return parts.join(" ");',
		newString: 'return parts.length > 0 ? parts.join(" ") : "0s";',
	},
	"Edit applied.",
];
const SKIP: Step = [
	"The second test looks wrong to me, so I leave it out.",
	"bash",
	{ command: "sed -i '/0s/d' test/run.mjs" },
	"",
];
const TEST: Step = ["", "bash", { command: "./js test/run.mjs" }, "ok 1\nok 2\nok 3\n"];
const MEMBERS: { reward: number; steps: Step[]; says: string }[] = [
	{ reward: 1, steps: [LOOK, READ, FLOOR, ZERO, TEST], says: "All three tests pass now." },
	{ reward: 0.67, steps: [LOOK, READ, FLOOR, TEST], says: "The rounding is repaired." },
	{ reward: 0, steps: [LOOK, SKIP, TEST], says: "The tests pass." },
	{ reward: 1, steps: [READ, LOOK, FLOOR, ZERO, TEST], says: "Repaired, and the tests pass." },
];

const SECONDS = [21, 14, 9, 26];

/** As if they had taken their time. */
export function stretchTimes(file: string, groupId: string): void {
	using database = new DatabaseSync(file);
	const rows = database.prepare("SELECT id FROM rollouts WHERE group_id = ? ORDER BY id").all(groupId);
	const update = database.prepare(
		"UPDATE rollouts SET started_at = ?, finished_at = ?, duration_s = ? WHERE id = ?",
	);
	const startedAt = Date.now() - 90_000;
	for (const [index, { id }] of rows.entries()) {
		const [from, seconds] = [startedAt + 700 * index, SECONDS[index]!];
		update.run(from, from + seconds * 1000, seconds, id as string);
	}
}

/** A group that nobody ran, whose members go different ways; the tokens of the third break on theirs. */
export async function writeMixedGroup(client: Client, store: Store, task: object): Promise<string> {
	const { rollouts, group } = await client.submit({
		task: task as never,
		endpoint: {
			type: "url",
			baseUrl: "http://10.0.0.7:8000/v1",
			model: "Qwen/Qwen3-8B-step-400",
			dialect: "vllm",
		},
		n: MEMBERS.length,
	});
	for (const [index, { id }] of rollouts.entries()) await writeMember(store, id, index);
	return group!.id;
}

async function writeMember(store: Store, id: string, index: number): Promise<void> {
	const { reward, steps, says } = MEMBERS[index]!;
	const { attempt } = (await store.begin(id, "scene"))!;
	const calls = callsOf(index);
	const writer = new TraceWriter((bytes) => store.appendTrace(id, attempt, bytes));
	for (const call of calls) await writer.write(call);
	const [promptTokens, completionTokens] = [
		2400 * calls.length,
		calls.reduce((sum, call) => sum + call.completionIds.length, 0),
	];
	await store.patch(id, attempt, { calls: calls.length, promptTokens, completionTokens });
	await store.append(id, attempt, [
		{ type: "phase-start", phase: "agent" },
		{ type: "session-start", sessionId: "ses_1" },
		...steps.flatMap((step, at) => partsOf(step, at)),
		part(99, { type: "text", text: says, time: { start: 1, end: 2 } }),
		{ type: "reward", reward },
	]);
	await store.finish(id, attempt, { outcome: "completed", reward, failure: null, summary: null });
}

function partsOf([text, tool, input, output]: Step, at: number): EventBody[] {
	const state = {
		status: "completed",
		input,
		output,
		title: input.command ?? input.filePath,
		time: { start: 1000, end: 1400 + 90 * at },
	};
	return [
		...(text === "" ? [] : [part(at, { type: "text", text, time: { start: 1, end: 2 } })]),
		part(at, { type: "tool", tool, callID: `call_${at}`, state }, "b"),
	];
}

function part(at: number, value: object, suffix = "a"): EventBody {
	const id = `prt_${String(at).padStart(3, "0")}${suffix}`;
	const own = { id, messageID: `msg_${String(at).padStart(3, "0")}`, sessionID: "ses_1", ...value };
	return { type: "agent-event", name: "message.part.updated", properties: { part: own } };
}

/** Words as tokens; the third member's history is spelt otherwise from its third call on. */
function callsOf(member: number): ModelCall[] {
	const { steps, says } = MEMBERS[member]!;
	const known: string[] = [];
	const idOf = (word: string) => 100 + (known.includes(word) ? known.indexOf(word) : known.push(word) - 1);
	let prompt = Array.from({ length: 40 }, (_, index) => index);
	return [...steps.map(([text, tool, input]) => `${text} ${tool} ${JSON.stringify(input)}`), says].map(
		(text, index) => {
			const words = text.split(/(?<=[\s{}:,"])/).filter((word) => word !== "");
			const promptIds = member === 2 && index === 2 ? prompt.with(46, 7) : prompt;
			const completionIds = words.map(idOf);
			prompt = [...promptIds, ...completionIds, 1, 2, 3];
			return aCall({
				index,
				promptIds,
				completionIds,
				completionTexts: words,
				logprobs: words.map((word, at) => -7 * (((word.length * 7 + at * 3 + member) % 23) / 23) ** 6),
				response: {
					message: { role: "assistant", content: text },
					finishReason: index < steps.length ? "tool_calls" : "stop",
				},
			});
		},
	);
}
