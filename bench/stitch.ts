import { fork } from "node:child_process";
import { once } from "node:events";
import { cpus, loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { openGateway } from "../src/gateway/agent-side/server.ts";
import type { ModelCall } from "../src/model/call.ts";
import { Sampling } from "../src/model/request.ts";
import { Budget } from "../src/model/task.ts";

/** Tokens of the first prompt; conversations, and turns of each behind the first. */
const SIZES = [
	{ tokens: 10_000, conversations: 12, turns: 10 },
	{ tokens: 100_000, conversations: 6, turns: 10 },
];
const LONG_TURNS = 150;

type Message = Record<string, unknown>;
type Gateway = Awaited<ReturnType<typeof openGateway>>;

/** What keeping a session one chain of tokens costs each call: the same conversations with and without, turn by turn in one run. */
export async function benchStitch(print: (text: string) => void): Promise<void> {
	const engine = fork(fileURLToPath(new URL("./stitch/engine.ts", import.meta.url)));
	try {
		const [{ port }] = (await once(engine, "message")) as [{ port: number }];
		await using gateway = await openGateway();
		const url = await gateway.listen("127.0.0.1", 0);
		const baseUrl = `http://127.0.0.1:${port}/v1`;
		const converse = (continuity: "auto" | "off", tokens: number, turns: number) =>
			conversation(gateway, url, baseUrl, { continuity, tokens, turns });
		await converse("auto", 10_000, 20);
		await converse("off", 10_000, 20);
		print(
			`${cpus()[0]?.model ?? "unknown CPU"} × ${cpus().length}, Node ${process.version}, load average ${(loadavg()[0] ?? 0).toFixed(1)}. ` +
				"Milliseconds from a request of the agent to the whole answer of an engine that answers at once, so that all of it is work on the prompt; calls behind the first of a session.",
		);
		print("");
		print(
			"| prompt tokens | calls | rendered anew: median | p99 | stitched: median | p99 | added median | added p99 | ratio of medians |",
		);
		print("|---|---|---|---|---|---|---|---|---|");
		for (const { tokens, conversations, turns } of SIZES) {
			const times = { auto: [] as number[], off: [] as number[] };
			for (let round = 0; round < conversations; round += 1)
				for (const how of round % 2 === 0 ? (["auto", "off"] as const) : (["off", "auto"] as const))
					times[how].push(...(await converse(how, tokens, turns)).times);
			print(toRow(tokens, times));
		}
		const { tokens } = await converse("auto", 100_000, LONG_TURNS);
		print("");
		print(
			`A rollout of ${LONG_TURNS + 1} calls that grew to ${tokens.toLocaleString("en")} tokens holds each of them once, ${((4 * tokens) / 1e6).toFixed(1)} MB; at 16 MB the sessions that rested longest are forgotten (test/gateway/stitch-memory.test.ts).`,
		);
	} finally {
		engine.kill();
	}
}

async function conversation(
	gateway: Gateway,
	url: string,
	baseUrl: string,
	{ continuity, tokens, turns }: { continuity: "auto" | "off"; tokens: number; turns: number },
): Promise<{ times: number[]; tokens: number }> {
	let [stitched, seen] = [0, 0];
	await using tap = gateway.openTap({
		rolloutId: "ro_1",
		attempt: 1,
		boxId: "box",
		overTcp: true,
		endpoint: { name: "bench", baseUrl, model: "m", dialect: "vllm", disableThinking: false },
		sampling: Sampling.parse({ continuity }),
		budget: Budget.parse({}),
		sink: {
			write: async (call: ModelCall) => {
				if (call.continuity?.stitched === true) stitched += 1;
				seen = call.promptIds.length + call.completionIds.length;
			},
		},
	});
	const words = Array.from({ length: tokens }, (_, index) => `w${index % 5000}`).join(" ");
	const messages: Message[] = [
		{ role: "system", content: words },
		{ role: "user", content: "Go." },
	];
	const times: number[] = [];
	for (let turn = 0; turn <= turns; turn += 1) {
		const startedAt = performance.now();
		const reply = await ask(url, tap.key, messages);
		if (turn > 0) times.push(performance.now() - startedAt);
		messages.push(kept(reply), { role: "tool", tool_call_id: callOf(reply).id, content: `result ${turn}` });
	}
	if (continuity === "auto" && stitched !== turns)
		throw new Error(`${stitched} of ${turns} calls were stitched`);
	return { times, tokens: seen };
}

async function ask(url: string, key: string, messages: Message[]): Promise<Message> {
	const response = await fetch(`${url}/chat/completions`, {
		method: "POST",
		headers: { authorization: `Bearer ${key}`, "content-type": "application/json", "x-session-id": "ses_1" },
		body: JSON.stringify({ model: "m", messages, tools: TOOLS }),
	});
	const body = (await response.json()) as { choices?: { message: Message }[] };
	if (body.choices === undefined) throw new Error(JSON.stringify(body));
	return body.choices[0]!.message;
}

const TOOLS = [
	{
		type: "function",
		function: { name: "look", parameters: { type: "object", properties: { at: { type: "integer" } } } },
	},
];

/** As an agent keeps it: text trimmed, arguments printed anew. */
function kept(reply: Message): Message {
	const call = callOf(reply);
	const args = JSON.stringify(JSON.parse(call.function.arguments));
	return {
		role: "assistant",
		content: String(reply.content).trim(),
		tool_calls: [{ ...call, function: { ...call.function, arguments: args } }],
	};
}

function callOf(reply: Message): { id: string; function: { name: string; arguments: string } } {
	return (reply.tool_calls as ReturnType<typeof callOf>[])[0]!;
}

function toRow(tokens: number, { auto, off }: { auto: number[]; off: number[] }): string {
	const [plain, stitched] = [at(off, 0.5), at(auto, 0.5)];
	const [plainTail, stitchedTail] = [at(off, 0.99), at(auto, 0.99)];
	const cells = [
		tokens.toLocaleString("en"),
		auto.length,
		...[plain, plainTail, stitched, stitchedTail, stitched - plain, stitchedTail - plainTail].map((ms) =>
			ms.toFixed(1),
		),
		(stitched / plain).toFixed(2),
	];
	return `| ${cells.join(" | ")} |`;
}

function at(times: number[], share: number): number {
	const sorted = times.toSorted((one, other) => one - other);
	return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
}
