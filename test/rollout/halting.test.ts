import { expect, test } from "vitest";
import type { Agent } from "../../src/agent/agent.ts";
import type { Sandbox } from "../../src/sandbox/sandbox.ts";
import { readCalls } from "../../src/store/trace/trace-log.ts";
import { sse } from "../fakes/replies.ts";
import { openUpstream, type Reaction, type Upstream } from "../fakes/upstream.ts";
import { task } from "../fixtures/script.ts";
import { changed, openStage, type PlayOptions, scriptAgent } from "./fixture.ts";

const clocks = { createS: 30, setupS: 30, agentS: 60, verifyS: 30, teardownS: 30 };

/** Streams two tokens and then goes on generating for ever, as an engine does until it is told to stop. */
const endless: Reaction = ({ response }) => {
	const said = (text: string, id: number) =>
		sse({ model: "m", choices: [{ index: 0, delta: { content: text }, token_ids: [id] }] });
	response.writeHead(200, { "content-type": "text/event-stream" });
	response.write(said("one ", 1) + said("two ", 2));
};

/** A call out of the box, by hand; marks when it has heard all there is, and stays until the connection ends. */
function callFrom(box: Sandbox, key: string, words: string, signal: AbortSignal): Promise<unknown> {
	const body = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: words }] });
	const head = `POST /v1/chat/completions HTTP/1.1\\r\\nhost: gw\\r\\nauthorization: Bearer ${key}\\r\\ncontent-length: ${body.length}\\r\\n\\r\\n`;
	const script = `exec 3<>/dev/tcp/127.0.0.1/7000
printf '${head}' >&3; printf '%s' '${body}' >&3
while read -r line <&3; do case "$line" in *two*) touch ~/heard;; esac; done`;
	return box.exec(`bash <<'END'\n${script}\nEND`, { signal }).catch(() => null);
}

interface StubbornAgent {
	/** Says when the agent is done; until the engine saw its calls closed it does not obey. */
	after(callAgain: (words: string) => void, hangUp: () => void): Promise<void>;
	upstream: Upstream;
}

/** Calls the model once, and after a halt obeys only when the engine has been told to stop: whoever waits for it waits for ever. */
function stubbornAgent({ upstream, after }: StubbornAgent): Agent {
	return {
		...scriptAgent("true"),
		boot: async (box, options, key, signal) => {
			const booted = await scriptAgent("true").boot(box, options, key, signal);
			return {
				...booted,
				open: async (directory) => {
					const calling = new AbortController();
					const call = (words: string) => void callFrom(box, key, words, calling.signal);
					const toldToStop = () =>
						upstream.until(() => upstream.received.every(({ isAborted }) => isAborted));
					const work = async () => {
						await box.exec("until test -e ~/heard; do sleep 0.05; done");
						await after(call, () => calling.abort());
						await toldToStop();
					};
					call("first");
					const working = work();
					return changed(await booted.open(directory), {
						settled: () => working,
						interrupt: toldToStop,
						messages: async () => [{ info: { said: "evidence" }, parts: [] }],
					});
				},
			};
		},
	};
}

async function play(
	after: StubbornAgent["after"],
	fields: Parameters<typeof task>[0],
	options: PlayOptions = {},
) {
	await using upstream = await openUpstream(endless);
	await using stage = await openStage(stubbornAgent({ upstream, after }));
	const { baseUrl } = upstream;
	const endpoint = { type: "url", baseUrl, model: "m", dialect: "vllm" } as const;
	const end = await stage.play(task({ clocks, ...fields }), { ...options, endpoint });
	const [row] = (await stage.store.list({}, { limit: 1 })).items;
	const calls = await Array.fromAsync(readCalls(stage.store.readTrace(row!.id, row!.attempt)));
	const transcript = String(await stage.store.getBlob(row!.id, "transcript.json"));
	return { end, calls, transcript, received: upstream.received.length };
}

const nothing = async () => {};

test.each([
	["its time is up", "timeout", nothing, { clocks: { ...clocks, agentS: 6 } }],
	["its budget is used up", "budget", async (call) => call("second"), { budget: { maxCalls: 1 } }],
] as [string, string, StubbornAgent["after"], Parameters<typeof task>[0]][])(
	"when %s the engine is told to stop at once, before the agent obeys; what it said is kept",
	async (_why, outcome, after, fields) => {
		const { end, calls, transcript, received } = await play(after, fields);
		expect(end.outcome).toBe(outcome);
		expect(received).toBe(1);
		expect(calls).toMatchObject([
			{
				complete: false,
				error: { code: "revoked" },
				completionIds: [1, 2],
				response: { message: { content: "one two " } },
			},
		]);
		expect(transcript).toContain("evidence");
	},
);

test("when it is aborted the engine is told to stop at once, before the agent obeys; what it said is kept", async () => {
	const stop = new AbortController();
	const { end, calls, transcript } = await play(async () => stop.abort(), {}, { stop: stop.signal });
	expect(end.outcome).toBe("aborted");
	expect(calls).toMatchObject([{ complete: false, error: { code: "revoked" }, completionIds: [1, 2] }]);
	expect(transcript).toContain("evidence");
});

test("when the agent's program goes away in the middle of an answer the engine is told to stop", async () => {
	const { calls } = await play(async (_call, hangUp) => hangUp(), {});
	expect(calls).toMatchObject([
		{ complete: false, error: { code: "agent_disconnected" }, completionIds: [1, 2] },
	]);
});
