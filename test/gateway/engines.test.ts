import { Agent } from "undici";
import { expect, test } from "vitest";
import { EngineBook } from "../../src/gateway/engines/engines.ts";
import { examineEndpoint } from "../../src/gateway/engines/examine.ts";
import { Sampling } from "../../src/model/request.ts";
import { json, refusal, sglangBody, stream, streams } from "../fakes/replies.ts";
import { type JsonObject, openUpstream, type Reaction } from "../fakes/upstream.ts";
import { CHAT, openStation, type Station, UPSTREAM_KEY } from "./station.ts";

const auto = (station: Station, dialect: "auto" | "vllm" | "openai" = "auto", model = "real") => ({
	endpoint: {
		name: "e",
		baseUrl: station.upstream.baseUrl,
		model,
		apiKey: UPSTREAM_KEY,
		dialect,
		disableThinking: true,
	},
});

/** An engine that refuses these fields, one at a time, as strict servers do. */
const refusing =
	(fields: string[], otherwise: Reaction): Reaction =>
	(exchange) => {
		const refused = fields.find((field) => field in exchange.body);
		const reaction = refused ? refusal(400, `Unrecognized request argument supplied: ${refused}`) : otherwise;
		return reaction(exchange);
	};

test.each([
	["vllm", stream(streams.vllm())],
	["sglang", json(sglangBody())],
] as const)(
	"an endpoint that lists its models as owned by %s is spoken to in its dialect",
	async (ownedBy, reaction) => {
		await using station = await openStation(reaction, { ownedBy });
		await using tap = station.open(auto(station));
		await station.ask(tap.key);
		expect(station.calls[0]).toMatchObject({
			dialect: ownedBy,
			engine: ownedBy,
			completionIds: [11, 12, 13],
			losses: [],
		});
		expect(station.upstream.received).toHaveLength(1);
	},
);

test.each([
	["vllm", { token_ids: [11] }],
	["sglang", { response_token_ids: [11], prompt_token_ids: [1] }],
	["openai", { logprobs: { content: [{ token: "a", logprob: -1 }] } }],
	["plain", {}],
] as const)("an unknown endpoint is asked for one token, and so known for %s", async (dialect, extra) => {
	const choice = { index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop", ...extra };
	await using station = await openStation((exchange) =>
		(isOurs(exchange.body) ? json({ choices: [choice] }) : stream(streams.openai()))(exchange),
	);
	expect(await examineEndpoint(auto(station).endpoint)).toMatchObject({ dialect, trouble: null });
	expect(station.upstream.received[0]!.body).toMatchObject({ max_tokens: 1, return_token_ids: true });
});

test("a refused flag is asked about in our own words, dropped for everybody, and the loss recorded", async () => {
	await using station = await openStation(
		refusing(["return_token_ids", "chat_template_kwargs"], stream(streams.openai())),
	);
	await using tap = station.open(auto(station, "vllm"));
	expect((await station.ask(tap.key)).status).toBe(200);
	const ours = station.upstream.received.filter(({ body }) => isOurs(body));
	expect(ours.map(({ body }) => [body.tools, body.stream])).toEqual(Array(3).fill([expect.anything(), true]));
	expect(station.upstream.received).toHaveLength(5);
	expect((await station.ask(tap.key)).status).toBe(200);
	expect(station.upstream.received).toHaveLength(6);
	for (const call of station.calls)
		expect(call.losses).toEqual(
			expect.arrayContaining(["return_token_ids refused", "chat_template_kwargs refused"]),
		);
	expect(tap.stop).toBeNull();
});

test("an endpoint that is examined says what it refuses, and what is wrong with it", async () => {
	await using strict = await openStation(refusing(["min_p", "top_k"], stream(streams.vllm())));
	expect(await examineEndpoint(auto(strict, "vllm").endpoint)).toMatchObject({
		handsOutIds: true,
		refused: ["min_p", "top_k"],
		trouble: null,
	});
	await using locked = await openStation(refusal(401, `Incorrect API key provided: ${UPSTREAM_KEY}`));
	const { trouble } = await examineEndpoint(auto(locked, "vllm").endpoint);
	expect(trouble).toContain("answered 401");
	expect(trouble).not.toContain(UPSTREAM_KEY);
});

test("what is known of an engine is asked anew after a while", async () => {
	await using upstream = await openUpstream(json({ choices: [{ index: 0, token_ids: [1] }] }));
	const dispatcher = new Agent();
	let now = 0;
	const book = new EngineBook(dispatcher, () => now);
	const endpoint = { ...ENDPOINT, baseUrl: upstream.baseUrl };
	expect((await book.know(endpoint)).dialect).toBe("vllm");
	upstream.react(json({ choices: [{ index: 0 }] }));
	expect((await book.know(endpoint)).dialect).toBe("vllm");
	now += 11 * 60_000;
	expect((await book.know(endpoint)).dialect).toBe("plain");
	await dispatcher.destroy();
});

test.each([
	["raw_logprobs", (logits: number[]) => logits],
	["scaled_logprobs", (logits: number[], body: JsonObject) => heat(logits, body)],
	["processed_logprobs", (logits: number[], body: JsonObject) => cut(heat(logits, body), body)],
	[undefined, () => [0, 0, 0]],
] as const)("an engine shows by its answers that its logprobs are %s", async (mode, process) => {
	const { received, calls } = await askAtTemperature(process, 0.7);
	expect(calls[0]?.logprobsMode).toBe(mode);
	expect(received.filter(isOurs).length).toBeGreaterThan(1);
});

test("an engine is not asked what its logprobs are of where that makes no difference", async () => {
	const { received } = await askAtTemperature((logits) => logits, 1);
	expect(received.filter(isOurs)).toEqual([]);
});

const ENDPOINT = { name: "e", model: "real", dialect: "auto", disableThinking: false } as const;

/** Whether a request is the gateway's own. */
function isOurs(body: JsonObject): boolean {
	return JSON.stringify(body.messages).includes("Say a word.");
}

const heat = (logits: number[], body: JsonObject) =>
	normalised(logits.map((logit) => logit / Number(body.temperature)));
const cut = (logprobs: number[], body: JsonObject) => (body.top_k === 1 ? [0, -9999, -9999] : logprobs);

function normalised(logits: number[]): number[] {
	const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
	return logits.map((logit) => logit - total);
}

/** One call to an engine with three tokens, whose logprobs are made by `process`. */
async function askAtTemperature(
	process: (logits: number[], body: JsonObject) => number[],
	temperature: number,
) {
	const logits = normalised([2, 1, 0]);
	await using station = await openStation((exchange) => {
		if (!isOurs(exchange.body)) return stream(streams.vllm())(exchange);
		const entries = process(logits, exchange.body).map((logprob, at) => ({ token: `t${at}`, logprob }));
		const logprobs = { content: [{ ...entries[0], top_logprobs: entries }] };
		return json({ choices: [{ index: 0, logprobs }] })(exchange);
	});
	const options = { ...auto(station, "vllm"), sampling: Sampling.parse({ temperature }) };
	await using tap = station.open(options);
	await station.ask(tap.key);
	return { received: station.upstream.received.map(({ body }) => body), calls: station.calls };
}

test("a model that wants max_completion_tokens is asked again that way", async () => {
	const complaint =
		"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.";
	await using station = await openStation((exchange) =>
		("max_tokens" in exchange.body ? refusal(400, complaint) : stream(streams.openai()))(exchange),
	);
	await using tap = station.open(auto(station, "openai"));
	expect((await station.ask(tap.key)).status).toBe(200);
	expect(station.upstream.received.at(-1)!.body).toMatchObject({ max_completion_tokens: 4096 });
});

test("the endpoint's key is in no log, no error, no call, whatever the endpoint echoes", async () => {
	await using station = await openStation(refusal(401, `Incorrect API key provided: ${UPSTREAM_KEY}`));
	await using tap = station.open(auto(station));
	const answer = await station.ask(tap.key);
	expect(tap.lastUpstreamError).toMatchObject({ code: "provider_auth" });
	const everything = JSON.stringify([
		station.calls,
		station.summaries,
		station.stops,
		station.log,
		answer,
		tap.lastUpstreamError,
	]);
	expect(everything).toContain("[key]");
	expect(everything).not.toContain(UPSTREAM_KEY);
});

test("a redirect is not followed: the key goes where it was meant for and nowhere else", async () => {
	await using elsewhere = await openUpstream(stream(streams.vllm()));
	await using station = await openStation(({ response }) => {
		response.writeHead(307, { location: `${elsewhere.baseUrl}/chat/completions` }).end();
	});
	await using tap = station.open(auto(station, "vllm"));
	expect((await station.ask(tap.key)).status).toBe(400);
	expect(elsewhere.received).toEqual([]);
});

test("an endpoint whose list of models never ends is not read to its end", async () => {
	await using station = await openStation(stream(streams.vllm()), { ownedBy: "x".repeat(8 * 1024 * 1024) });
	await using tap = station.open(auto(station));
	await station.ask(tap.key);
	expect(station.calls[0]).toMatchObject({ complete: true, engine: null });
});

test("a stream longer than the gateway accepts ends the rollout instead of filling memory", async () => {
	await using station = await openStation(stream(streams.vllm()), { limits: { maxStreamBytes: 300 } });
	await using tap = station.open();
	expect((await station.ask(tap.key)).text).toContain("provider_malformed");
	expect(station.stops).toMatchObject([{ type: "failure", failure: { code: "provider_malformed" } }]);
});

test("a value that an engine does not take is a refusal to who asked for it, and takes the field from nobody", async () => {
	await using station = await openStation((exchange) =>
		(Number(exchange.body.temperature) > 2
			? refusal(400, "temperature must be at most 2, got 5.")
			: stream(streams.vllm()))(exchange),
	);
	const at = (temperature: number) => ({
		...auto(station, "vllm"),
		endpoint: { ...auto(station, "vllm").endpoint, logprobsMode: "processed_logprobs" as const },
		sampling: Sampling.parse({ temperature }),
	});
	await using hot = station.open(at(5));
	await station.ask(hot.key);
	const message = expect.stringContaining("temperature must be at most 2");
	expect(hot.stop).toMatchObject({ failure: { code: "provider_rejected", message } });
	await using warm = station.open({ ...at(0.7), boxId: "box_2" });
	await station.ask(warm.key);
	expect(station.upstream.received.at(-1)!.body).toMatchObject({ temperature: 0.7 });
	expect(station.calls.at(-1)).toMatchObject({ complete: true, losses: [] });
});

test("a box cannot teach the gateway by having the engine repeat its words", async () => {
	const echoing: Reaction = (exchange) => {
		const [first] = exchange.body.messages as { role: string }[];
		const isWrong = first!.role.startsWith("x");
		return (isWrong ? refusal(400, `unexpected role ${first!.role}`) : stream(streams.vllm()))(exchange);
	};
	await using station = await openStation(echoing);
	await using hostile = station.open(auto(station, "vllm"));
	const question = { stream: true, messages: [{ role: "x return_token_ids", content: "" }] };
	expect((await station.ask(hostile.key, question)).status).toBe(400);
	await using other = station.open({ ...auto(station, "vllm"), boxId: "box_2" });
	await station.ask(other.key);
	expect(station.upstream.received.at(-1)!.body).toHaveProperty("return_token_ids", true);
	expect(station.calls.at(-1)).toMatchObject({ completionIds: [11, 12, 13], losses: [] });
});

test("a box cannot teach the gateway by asking for more alternatives than the engine gives", async () => {
	await using station = await openStation((exchange) =>
		(Number(exchange.body.top_logprobs) > 20
			? refusal(400, "top_logprobs must not exceed 20; logprobs refused")
			: stream(streams.vllm()))(exchange),
	);
	await using hostile = station.open(auto(station, "vllm"));
	await station.ask(hostile.key, { ...CHAT, logprobs: true, top_logprobs: 99 });
	expect(station.upstream.received[0]!.body).toMatchObject({ logprobs: true, top_logprobs: 0 });
	await using other = station.open({ ...auto(station, "vllm"), boxId: "box_2" });
	await station.ask(other.key);
	expect(station.calls.at(-1)).toMatchObject({ completionIds: [11, 12, 13], losses: [] });
});

test("an answer over another protocol says nothing about the tokens an engine can hand out", async () => {
	const body = {
		type: "message",
		role: "assistant",
		content: [{ type: "text", text: "hi" }],
		stop_reason: "end_turn",
	};
	await using station = await openStation((exchange) =>
		(exchange.path.endsWith("/messages") ? json(body) : stream(streams.vllm()))(exchange),
	);
	await using tap = station.open(auto(station));
	const question = { max_tokens: 9, messages: [{ role: "user", content: "hi" }] };
	expect((await station.ask(tap.key, question, { path: "/messages" })).status).toBe(200);
	await station.ask(tap.key);
	expect(station.calls.at(-1)).toMatchObject({ dialect: "vllm", completionIds: [11, 12, 13], losses: [] });
});

test("not even the first half of a key stays where an error text is shortened", async () => {
	const padding = "x".repeat(500 - UPSTREAM_KEY.length / 2);
	await using station = await openStation(({ response }) => {
		response.writeHead(401, { "content-type": "text/plain" }).end(`${padding}${UPSTREAM_KEY}`);
	});
	await using tap = station.open(auto(station, "vllm"));
	await station.ask(tap.key);
	expect(station.calls[0]?.error?.message).toContain("xxx");
	expect(station.calls[0]?.error?.message).not.toContain(UPSTREAM_KEY.slice(0, 6));
});
