import { expect, test } from "vitest";
import { json, refusal, sglangBody, stream, streams } from "../fakes/replies.ts";
import { openUpstream, type Reaction } from "../fakes/upstream.ts";
import { openStation, type Station, UPSTREAM_KEY } from "./station.ts";

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

test("an unknown endpoint is taken for the richest and known by its first answer", async () => {
	await using station = await openStation(stream(streams.openai()));
	await using tap = station.open(auto(station));
	await station.ask(tap.key, undefined);
	await station.ask(tap.key, undefined);
	const [first, second] = station.upstream.received;
	expect(first!.body).toHaveProperty("return_token_ids");
	expect(second!.body).not.toHaveProperty("return_token_ids");
	expect(second!.body).toHaveProperty("logprobs");
	expect(station.calls.map((call) => call.dialect)).toEqual(["vllm", "openai"]);
	expect(station.calls[0]!.losses).toContain("token ids missing");
});

test("an unknown endpoint that cannot stream ids is asked unstreamed from then on", async () => {
	await using station = await openStation((exchange) =>
		exchange.body.stream === true
			? refusal(400, "return_token_ids is not supported with stream=true")(exchange)
			: json(sglangBody())(exchange),
	);
	await using tap = station.open(auto(station));
	expect((await station.ask(tap.key)).status).toBe(200);
	expect(station.calls[0]).toMatchObject({ dialect: "sglang", completionIds: [11, 12, 13] });
	expect(station.upstream.received).toHaveLength(2);
});

test("a refused flag is dropped, the call tried again, the loss recorded, and the flag not sent again", async () => {
	await using station = await openStation(
		refusing(["return_token_ids", "chat_template_kwargs"], stream(streams.openai())),
	);
	await using tap = station.open(auto(station, "vllm"));
	expect((await station.ask(tap.key)).status).toBe(200);
	expect(station.upstream.received).toHaveLength(3);
	expect((await station.ask(tap.key)).status).toBe(200);
	expect(station.upstream.received).toHaveLength(4);
	for (const call of station.calls)
		expect(call.losses).toEqual(
			expect.arrayContaining(["return_token_ids refused", "chat_template_kwargs refused"]),
		);
	expect(tap.stop).toBeNull();
});

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

test("a box cannot teach the gateway by having the engine repeat its words", async () => {
	const echoing: Reaction = (exchange) => {
		const [first] = exchange.body.messages as { role: string }[];
		const isWrong = first!.role.startsWith("x") && "return_token_ids" in exchange.body;
		return (isWrong ? refusal(400, `unexpected role ${first!.role}`) : stream(streams.vllm()))(exchange);
	};
	await using station = await openStation(echoing);
	await using hostile = station.open(auto(station, "vllm"));
	await station.ask(hostile.key, { stream: true, messages: [{ role: "x return_token_ids", content: "" }] });
	expect(station.calls.at(-1)).toMatchObject({ complete: true, losses: ["return_token_ids refused"] });
	await using other = station.open({ ...auto(station, "vllm"), boxId: "box_2" });
	await station.ask(other.key);
	expect(station.upstream.received.at(-1)!.body).toHaveProperty("return_token_ids", true);
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
