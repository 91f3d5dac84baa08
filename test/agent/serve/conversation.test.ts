import type { IncomingMessage, ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { inspect } from "node:util";
import { describe, expect, test, vi } from "vitest";
import type { ConversationEvent } from "../../../src/agent/agent.ts";
import { openServeConversation } from "../../../src/agent/serve/attach.ts";
import { placeAt, ServeClient } from "../../../src/agent/serve/client.ts";
import { ServeConversation } from "../../../src/agent/serve/conversation.ts";
import { keepListening } from "../../../src/agent/serve/feed.ts";
import { FrameReader } from "../../../src/agent/serve/frames.ts";
import { SERVE_TIMES, type ServeTimes } from "../../../src/agent/serve/times.ts";
import { type FakeApi, frame, openFakeApi, refuse } from "../../fakes/opencode-api.ts";

/**
 * Against a fake that speaks the protocol over real sockets: most cases need an event that comes late, twice, broken or never, or an
 * answer that the real server does not give on demand; the others count, to the last one, the requests that are made of it. What the
 * real server can be brought to do is in live.test.ts.
 */
const PASSWORD = "canary-password";

describe("the event stream", () => {
	test("a broken frame, other JSON, and one that is too large break nothing; what follows is heard", async () => {
		await using stage = await openStage({ maxFrameBytes: 2_000 });
		const { api, seen } = stage;
		api.write("data: {broken\n\n");
		for (const odd of ["null", "[1]", '"text"', "7"]) api.write(`data: ${odd}\n\n`);
		api.write(frame({ payload: { type: "sync", properties: { sessionID: "ses_root" } } }));
		api.write(`data: ${"x".repeat(5_000)}\n\n`);
		api.tell("todo.updated", { sessionID: "ses_root", at: "the end" });
		await stage.until(() => seen.some((event) => JSON.stringify(event).includes("the end")));
		expect(seen.filter(({ type }) => type === "noise")).toMatchObject([
			{ what: "unparseable" },
			{ what: "oversize" },
		]);
		expect(seen.filter((event) => event.type === "agent-event").map((event) => event.name)).toEqual([
			"todo.updated",
		]);
		expect(api.state.connections).toBe(1);
	});

	test("frames of another directory and of foreign sessions are dropped; bare ones and both spellings of ours are not", async () => {
		await using stage = await openStage();
		const { api, seen } = stage;
		api.tell("todo.updated", { sessionID: "ses_root", n: 1 }, "/elsewhere");
		api.tell("todo.updated", { sessionID: "ses_root", n: 2 }, "/link");
		api.tell("todo.updated", { sessionID: "ses_other", n: 3 });
		api.write(frame({ type: "todo.updated", properties: { sessionID: "ses_root", n: 4 } }));
		await stage.until(() => JSON.stringify(seen).includes('"n":4'));
		const numbers = seen.flatMap((event) => (event.type === "agent-event" ? [event.properties.n] : []));
		expect(numbers).toEqual([2, 4]);
	});

	test("it is opened again with growing pauses, from the first after a good connection, and for ever", async () => {
		const pauses: number[] = [];
		await using stage = await openStage({
			times: {
				reconnectMs: [200, 500, 1_000, 2_000, 5_000],
				sleep: async (ms, signal) => {
					if (ms > 5_000) return await SERVE_TIMES.sleep(ms, signal);
					pauses.push(ms);
					await delay(1);
				},
			},
		});
		const { api } = stage;
		const feed = () => pauses.filter((ms) => [200, 500, 1_000, 2_000, 5_000].includes(ms));
		pauses.length = 0;
		api.state.eventStatus = 503;
		api.cut();
		await stage.until(() => feed().length >= 7);
		expect(feed().slice(0, 7)).toEqual([200, 500, 1_000, 2_000, 5_000, 5_000, 5_000]);
		api.state.eventStatus = 200;
		await stage.until(() => stage.seen.some(({ type }) => type === "gap"));
		pauses.length = 0;
		api.cut();
		await stage.until(() => feed().length > 0);
		expect(feed()[0]).toBe(200);
	});

	test("one that falls silent is dead", async () => {
		await using stage = await openStage({ times: { idleMs: 100 } });
		await stage.until(() => stage.api.state.connections >= 3);
	});

	test("heartbeats keep it alive, for as long as they come", async () => {
		vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
		try {
			const stream = Object.assign(new PassThrough(), { statusCode: 200 }) as unknown as IncomingMessage;
			const lost = Promise.withResolvers<string>();
			const heard: string[] = [];
			const stop = new AbortController();
			const open = async (signal: AbortSignal) => {
				signal.addEventListener("abort", () => stream.destroy());
				return stream;
			};
			const listener = {
				onConnected: () => {},
				onEvent: ({ type }: { type: string }) => void heard.push(type),
				onNoise: () => {},
				onLost: lost.resolve,
			};
			const sleep = () => new Promise<void>(() => {});
			const times = { connectMs: 10_000, idleMs: 35_000, reconnectMs: [200], sleep };
			void keepListening(open, listener, times, 1_000, stop.signal);
			for (let beat = 1; beat <= 12; beat += 1) {
				// What follows a heartbeat shows that it was read.
				const next = { payload: { type: `after-${beat}`, properties: {} } };
				(stream as unknown as PassThrough).write(
					`${frame({ payload: { type: "server.heartbeat", properties: {} } })}${frame(next)}`,
				);
				while (!heard.includes(`after-${beat}`)) await new Promise(setImmediate);
				await vi.advanceTimersByTimeAsync(30_000);
			}
			expect(stream.destroyed).toBe(false);
			await vi.advanceTimersByTimeAsync(6_000);
			expect(await lost.promise).toBe("it fell silent");
		} finally {
			vi.useRealTimers();
		}
	});

	test("a refused password ends the conversation, once", async () => {
		await using stage = await openStage();
		stage.api.state.eventStatus = 401;
		const before = stage.api.state.connections;
		stage.api.cut();
		expect(await stage.talk.closed).toMatchObject({ code: "agent_auth_failed" });
		expect(stage.api.state.connections).toBe(before + 1);
		await expect(stage.talk.send("x")).rejects.toMatchObject({ code: "conversation_closed" });
	});

	test("is the same however its bytes are cut", () => {
		const text =
			': comment\r\nevent: x\r\ndata: {"a":\r\ndata: "ü😀"}\r\n\r\ndata:two\n\nid: 3\n\ndata: three\n\n';
		const bytes = Buffer.from(text);
		const read = (pieces: Buffer[]) => {
			const reader = new FrameReader(1_000);
			return pieces.flatMap((piece) => [...reader.read(piece)]);
		};
		const whole = read([bytes]);
		expect(whole.map((one) => one.type === "data" && one.text)).toEqual(['{"a":\n"ü😀"}', "two", "three"]);
		for (let at = 1; at < bytes.length; at += 1)
			expect(read([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(whole);
		expect(read([...bytes].map((byte) => Buffer.from([byte])))).toEqual(whole);
		const large = Buffer.from(`data: ${"x".repeat(5 * 1024 * 1024)}\n\n`);
		expect([...new FrameReader(64 * 1024 * 1024).read(large)]).toHaveLength(1);
	});
});

describe("a turn", () => {
	test("a late second idle of an interrupted turn does not settle the next one", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		const id = await talk.send("Next");
		stage.busy();
		api.tell("session.idle", { sessionID: "ses_root" });
		stage.status("idle");
		stage.assistant("msg_a", id, "tool-calls", { text: "" });
		// The server says that it works: the idle was somebody else's.
		api.state.statuses = { ses_root: { type: "busy" } };
		await stage.until(() => api.requests.some(({ path }) => path === "/session/status"));
		expect(stage.turns()).toEqual([]);
		stage.assistant("msg_b", id, "stop", { text: "Done." });
		api.state.statuses = {};
		stage.status("idle");
		await talk.settled();
		expect(stage.turns()).toMatchObject([{ ended: "answered", text: "Done." }]);
	});

	test("idle that lasts without an answer settles it as unanswered, once", async () => {
		await using stage = await openStage({ times: { unansweredMs: 50 } });
		await stage.talk.send("Hello?");
		stage.busy();
		stage.status("idle");
		await stage.talk.settled();
		expect(stage.turns()).toMatchObject([{ ended: "unanswered", error: null }]);
	});

	test("an error settles it only with idle; a retry stays pending and is shown", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		await talk.send("Go");
		stage.busy();
		api.tell("session.status", {
			sessionID: "ses_root",
			status: { type: "retry", attempt: 2, message: "429", next: 9 },
		});
		await stage.until(() => talk.status.type === "retry");
		expect(talk.status).toEqual({ type: "retry", attempt: 2, message: "429", nextMs: 9 });
		api.tell("session.error", {
			sessionID: "ses_root",
			error: { name: "APIError", data: { message: "no", statusCode: 429 } },
		});
		api.tell("todo.updated", { sessionID: "ses_root" });
		await stage.until(() =>
			stage.seen.some((event) => event.type === "agent-event" && event.name === "todo.updated"),
		);
		expect(talk.pending).toBe(true);
		stage.status("idle");
		await talk.settled();
		expect(stage.turns()).toMatchObject([{ ended: "failed", error: { code: "APIError", statusCode: 429 } }]);
		expect(talk.pending).toBe(false);
	});

	test("an idle and a message that were missed in a gap are made up for, the message once", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		const id = await talk.send("Go");
		stage.busy();
		await stage.until(() => talk.status.type === "busy");
		api.state.messages = [stored("msg_a", id, "Said in the gap.")];
		api.cut();
		await talk.settled();
		expect(stage.turns()).toMatchObject([{ ended: "answered", text: "Said in the gap." }]);
		// The same comes once more, live.
		stage.assistant("msg_a", id, "stop", { text: "Said in the gap." });
		api.tell("todo.updated", { sessionID: "ses_root" });
		await stage.until(() =>
			stage.seen.some((event) => event.type === "agent-event" && event.name === "todo.updated"),
		);
		expect(stage.seen.filter(({ type }) => type === "message")).toHaveLength(1);
	});

	test("what a broken step said does not count, and parts come in order", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		const id = await talk.send("Go");
		stage.busy();
		const part = (partId: string, type: string, text?: string) =>
			api.tell("message.part.updated", {
				part: {
					id: partId,
					sessionID: "ses_root",
					messageID: "msg_a",
					type,
					...(text ? { text, time: { end: 1 } } : {}),
				},
			});
		part("prt_1", "step-start");
		part("prt_2", "text", "Broken o");
		part("prt_3", "step-start");
		part("prt_4", "text", "One.");
		part("prt_5", "text", "Two.");
		part("prt_6", "step-finish");
		stage.finished("msg_a", id, "stop");
		stage.status("idle");
		await talk.settled();
		expect(stage.turns()).toMatchObject([{ text: "One.\n\nTwo." }]);
	});

	test("its message may be shown finished before its parts are there", async () => {
		await using stage = await openStage();
		const { talk } = stage;
		const id = await talk.send("Go");
		stage.busy();
		stage.finished("msg_a", id, "stop");
		stage.assistant("msg_a", id, "stop", { text: "Late words." });
		stage.status("idle");
		await talk.settled();
		expect(stage.seen.filter((event) => event.type === "message")).toMatchObject([
			{ message: { text: "Late words." } },
		]);
	});
});

test("only an assistant that says something is a message: none for people's own words, none for a tool alone", async () => {
	await using stage = await openStage();
	const { api, talk } = stage;
	const id = await talk.send("Go");
	stage.busy();
	api.tell("message.updated", { info: { id, sessionID: "ses_root", role: "user", time: { created: 1 } } });
	api.tell("message.part.updated", {
		part: { id: "prt_u", sessionID: "ses_root", messageID: id, type: "text", text: "Go" },
	});
	stage.assistant("msg_a", id, "tool-calls", { text: "" });
	stage.assistant("msg_b", id, "stop", { text: "Done." });
	stage.status("idle");
	await talk.settled();
	const messages = stage.seen.flatMap((event) => (event.type === "message" ? [event.message.text] : []));
	expect(messages).toEqual(["Done."]);
});

describe("an interrupt", () => {
	test("of an agent that has nothing to do asks nothing of it, and none of a closed one", async () => {
		await using stage = await openStage();
		await stage.talk.interrupt();
		expect(stage.api.posts("/abort")).toEqual([]);
		await stage.talk.finish();
		await expect(stage.talk.interrupt()).rejects.toMatchObject({ code: "conversation_closed" });
	});

	test("twice at once is one abort", async () => {
		await using stage = await openStage();
		await stage.talk.send("Go");
		stage.busy();
		stage.api.answer("POST /session/ses_root/abort", () => {
			stage.status("idle");
			return "default";
		});
		await Promise.all([stage.talk.interrupt(), stage.talk.interrupt()]);
		expect(stage.api.posts("/abort")).toHaveLength(1);
		expect(stage.turns()).toMatchObject([{ ended: "interrupted" }]);
	});

	test("that the server refuses is an error of its own, and the turn goes on", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		const id = await talk.send("Go");
		stage.busy();
		await stage.until(() => talk.status.type === "busy");
		api.answer("POST /session/ses_root/abort", refuse(500));
		await expect(talk.interrupt()).rejects.toMatchObject({ boundary: "agent", code: "agent_api_error" });
		stage.assistant("msg_a", id, "stop", { text: "Done." });
		stage.status("idle");
		await talk.settled();
		expect(stage.turns()).toMatchObject([{ ended: "answered", text: "Done." }]);
	});
});

describe("a send", () => {
	test("posts message, part and model, and no model when there is none", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		await talk.send("One");
		talk.setModel("provider/some/model");
		await talk.send("Two");
		const [one, two] = api.posts("prompt_async").map(({ body }) => body);
		expect(one).toEqual({
			messageID: expect.stringMatching(/^msg_[0-9a-f]{12}[0-9A-Za-z]{14}$/),
			parts: [{ id: expect.stringMatching(/^prt_/), type: "text", text: "One" }],
		});
		expect(two).toMatchObject({ model: { providerID: "provider", modelID: "some/model" } });
		expect(() => talk.setModel("nothing")).toThrow(/provider\/model/);
	});

	test("takes the caller's trace id along as a header, whatever is in it", async () => {
		await using stage = await openStage();
		for (const traceId of ["trace-1", "a b\r\nx-evil: ü\ud800"]) await stage.talk.send("One", { traceId });
		await stage.talk.send("Two");
		const [plain, odd, none] = stage.api.posts("prompt_async").map(({ headers }) => headers);
		expect(plain!["x-trace-id"]).toBe("trace-1");
		expect(odd!["x-trace-id"]).toBe("a%20b%0D%0Ax-evil%3A%20%C3%BC%EF%BF%BD");
		expect(odd).not.toHaveProperty("x-evil");
		expect(none).not.toHaveProperty("x-trace-id");
	});

	test.each([
		[400, "send_rejected"],
		[401, "agent_auth_failed"],
		[404, "session_not_found"],
	])("that is refused with %i is not repeated, and a later one works", async (status, code) => {
		await using stage = await openStage();
		const { api, talk } = stage;
		let refusals = 0;
		api.answer("POST /session/ses_root/prompt_async", (request, response) =>
			refusals++ === 0 ? refuse(status)(request, response) : "default",
		);
		const failure = await talk.send("One").catch((error: unknown) => error);
		expect(failure).toMatchObject({ boundary: "agent", code });
		expect(String(failure)).not.toContain(PASSWORD);
		expect(talk.pending).toBe(false);
		await talk.send("Two");
		expect(refusals).toBe(2);
	});

	test("that meets a broken server is repeated with the same ids, four times at most, and a later one works", async () => {
		await using stage = await openStage({ times: { pauseMs: 1, lookAgainMs: 1 } });
		const { api, talk } = stage;
		let isBroken = true;
		api.answer("GET /session/ses_root/message/", refuse(404));
		api.answer("POST /session/ses_root/prompt_async", (request, response) =>
			isBroken ? refuse(500)(request, response) : "default",
		);
		await expect(talk.send("One")).rejects.toMatchObject({ code: "agent_api_error", retryable: true });
		const bodies = api.posts("prompt_async").map(({ body }) => JSON.stringify(body));
		expect(bodies).toHaveLength(4);
		expect(new Set(bodies).size).toBe(1);
		expect(talk.pending).toBe(false);
		isBroken = false;
		await talk.send("Two");
		expect(api.posts("prompt_async")).toHaveLength(5);
		expect(talk.pending).toBe(true);
	});

	test("to a server that takes no connection any more fails as one that may work later", async () => {
		await using stage = await openStage({ times: { pauseMs: 1, lookAgainMs: 1 } });
		await stage.api[Symbol.asyncDispose]();
		const failure = await stage.talk.send("One").catch((error: unknown) => error);
		expect(failure).toMatchObject({ code: "agent_api_error", retryable: true });
		expect(String(failure)).toContain("ECONNREFUSED");
		expect(stage.talk.pending).toBe(false);
	});

	test("and an interrupt before the start are refused as that", async () => {
		const client = new ServeClient(placeAt("http://127.0.0.1:1"), { password: PASSWORD, directory: "/" });
		await using talk = new ServeConversation(client, { directory: "/" });
		const refused = { boundary: "agent", code: "conversation_not_started" };
		await expect(talk.send("Too early")).rejects.toMatchObject(refused);
		await expect(talk.interrupt()).rejects.toMatchObject(refused);
		expect(talk.pending).toBe(false);
	});
});

describe("an ask", () => {
	test("before anybody decides waits, and goes to whoever comes, in order", async () => {
		await using stage = await openStage();
		stage.busy();
		stage.ask("per_1");
		stage.ask("per_2");
		await stage.until(() => stage.talk.asks().length === 2);
		const order: string[] = [];
		using _decide = stage.talk.decideWith(async ({ id }) => {
			order.push(id);
			return { behavior: "allow", by: "test" };
		});
		await stage.until(() => stage.api.posts("/reply").length === 2);
		expect(order).toEqual(["per_1", "per_2"]);
		expect(stage.api.posts("/reply").map(({ body }) => body)).toEqual([{ reply: "once" }, { reply: "once" }]);
	});

	test("that comes live and is swept as well is decided once; a reply that fails is sent again", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		stage.busy();
		let calls = 0;
		using _decide = talk.decideWith(async () => {
			calls += 1;
			return { behavior: "deny", by: "test", message: "no" };
		});
		let tries = 0;
		api.answer("POST /permission/per_1/reply", (_request, response) => {
			tries += 1;
			if (tries > 2) return "default";
			return response.destroy();
		});
		api.state.statuses = { ses_root: { type: "busy" } };
		api.state.permissions = [asked("per_1")];
		stage.ask("per_1");
		api.cut();
		await stage.until(() => stage.ends().length === 1);
		expect({ calls, tries }).toEqual({ calls: 1, tries: 3 });
		expect(stage.ends()).toMatchObject([{ reply: "reject", by: "test", message: "no" }]);
	});

	test("goes to who took over the deciding, and what was asked before stays with who was asked", async () => {
		await using stage = await openStage();
		stage.busy();
		const asked: string[] = [];
		const first = Promise.withResolvers<void>();
		stage.talk.decideWith(async ({ id }) => {
			asked.push(`first ${id}`);
			await first.promise;
			return { behavior: "allow", by: "first" };
		});
		stage.ask("per_1");
		await stage.until(() => asked.length === 1);
		stage.talk.decideWith(async ({ id }) => {
			asked.push(`second ${id}`);
			return { behavior: "allow", by: "second" };
		});
		stage.ask("per_2");
		await stage.until(() => stage.ends().length === 1);
		first.resolve();
		await stage.until(() => stage.ends().length === 2);
		expect(asked).toEqual(["first per_1", "second per_2"]);
		expect(stage.ends().map(({ by }) => by)).toEqual(["second", "first"]);
	});

	test("that the server no longer knows was answered elsewhere", async () => {
		await using stage = await openStage();
		stage.busy();
		stage.api.answer("POST /permission/per_1/reply", refuse(404));
		using _decide = stage.talk.decideWith(async () => ({ behavior: "allow", by: "test" }));
		stage.ask("per_1");
		await stage.until(() => stage.ends().length === 1);
		expect(stage.ends()).toMatchObject([{ by: "elsewhere" }]);
		expect(stage.api.posts("/reply")).toHaveLength(1);
	});

	test("of a grandchild whose birth was missed is ours, one of a stranger is not", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		api.state.parents = { ses_grandchild: "ses_child", ses_child: "ses_root", ses_stranger: "ses_else" };
		api.state.statuses = { ses_grandchild: { type: "busy" }, ses_stranger: { type: "busy" } };
		const ids: string[] = [];
		using _decide = talk.decideWith(async ({ id, isChild }) => {
			ids.push(`${id} ${isChild}`);
			return { behavior: "allow", by: "test" };
		});
		stage.ask("per_stranger", "ses_stranger");
		stage.ask("per_grandchild", "ses_grandchild");
		await stage.until(() => stage.ends().length === 1);
		expect(ids).toEqual(["per_grandchild true"]);
	});

	test("whose session cannot be looked up is not lost: it is looked up again, without a new connection", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		api.state.parents = { ses_child: "ses_root" };
		api.state.statuses = { ses_child: { type: "busy" } };
		api.state.permissions = [asked("per_1", "ses_child")];
		let looks = 0;
		api.answer("GET /session/ses_child", (request, response) =>
			looks++ === 0 ? refuse(500)(request, response) : "default",
		);
		using _decide = talk.decideWith(async () => ({ behavior: "allow", by: "test" }));
		stage.ask("per_1", "ses_child");
		await stage.until(() => stage.ends().length === 1);
		expect(stage.ends()).toMatchObject([{ reply: "once", by: "test" }]);
		expect(api.state.connections).toBe(1);
	});

	test("that one list leaves out and the next one has again waits all the same", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		api.state.statuses = { ses_root: { type: "busy" } };
		stage.busy();
		stage.ask("per_1");
		await stage.until(() => talk.asks().length === 1);
		api.cut();
		await stage.until(() => stage.ends().length === 1);
		expect(stage.ends()).toMatchObject([{ reply: "unknown", by: "elsewhere" }]);
		api.state.permissions = [asked("per_1")];
		api.cut();
		await stage.until(() => talk.asks().length === 1);
	});

	test("is swept again when the list cannot be read, and the stream goes on meanwhile", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		let tries = 0;
		api.answer("GET /permission", (_request, response) => {
			tries += 1;
			if (tries > 2) return "default";
			response.writeHead(tries === 1 ? 500 : 200, { "content-type": "application/json" });
			response.end('{"not":"a list"}');
		});
		api.state.statuses = { ses_root: { type: "busy" } };
		api.state.permissions = [asked("per_1")];
		using _decide = talk.decideWith(async () => ({ behavior: "allow", by: "test" }));
		api.cut();
		await stage.until(() => stage.ends().length === 1);
		expect(tries).toBeGreaterThanOrEqual(3);
	});
});

test("the password is in no event, error or address, whatever the server sends back", async () => {
	await using stage = await openStage({ times: { pauseMs: 1, lookAgainMs: 1 } });
	const { api, talk, seen } = stage;
	const login = Buffer.from(`opencode:${PASSWORD}`).toString("base64");
	const errors: unknown[] = [];
	const failing = async (act: () => Promise<unknown>) => errors.push(await act().catch((error) => error));
	for (const status of [400, 401, 404, 500]) {
		const sendBack = (_request: unknown, response: ServerResponse) => {
			response.writeHead(status);
			// Also where a cut would leave a piece of it.
			response.end(`${login} ${PASSWORD} ${"x".repeat(230)}${PASSWORD}`);
		};
		for (const what of ["POST /session/ses_root", "GET /permission", "GET /session"])
			api.answer(what, sendBack);
		await failing(() => talk.send("One"));
		stage.busy();
		await stage.until(() => talk.status.type === "busy");
		await failing(() => talk.interrupt());
		await failing(() => talk.messages());
		api.write(`data: {broken ${login} ${"x".repeat(140)}${PASSWORD}\n\n`);
		const [noises, connections] = [count("noise"), api.state.connections];
		await stage.until(() => count("noise") > noises);
		// What it asks after a connection is refused as well.
		const notes = count("note");
		api.cut();
		await stage.until(() => api.state.connections > connections && count("note") > notes);
	}
	api.state.eventStatus = 401;
	api.cut();
	errors.push(await talk.closed);
	const told = inspect({ seen, errors }, { depth: 20, maxStringLength: null, maxArrayLength: null });
	expect(errors).toHaveLength(13);
	expect(told).toContain("[hidden]");
	for (const secret of [PASSWORD, login]) expect(told.includes(secret.slice(0, 12))).toBe(false);
	expect(api.requests.filter(({ path }) => path.includes(PASSWORD) || path.includes("auth_token"))).toEqual(
		[],
	);

	function count(type: ConversationEvent["type"]): number {
		return seen.filter((event) => event.type === type).length;
	}
});

describe("listeners", () => {
	test("the end is told last and once, whatever they do; a stuck one does not keep it", async () => {
		await using stage = await openStage({ times: { finishMs: 50 } });
		const { api, talk } = stage;
		const seen: string[] = [];
		talk.subscribe(() => {
			throw new Error("broken");
		});
		talk.subscribe(({ type }) => (type === "agent-event" ? new Promise(() => {}) : null));
		talk.subscribe(async ({ type }) => {
			await delay(1);
			seen.push(type);
		});
		api.tell("todo.updated", { sessionID: "ses_root" });
		await stage.until(() => seen.includes("agent-event"));
		await Promise.all([talk.finish("first"), talk.finish("second")]);
		api.tell("todo.updated", { sessionID: "ses_root" });
		expect(seen.at(-1)).toBe("closed");
		expect(seen.filter((type) => type === "closed")).toHaveLength(1);
		expect(await talk.closed).toMatchObject({ code: "asked", message: "first" });
	});

	test("a slow one loses text first, and is told how much; others lose nothing", async () => {
		await using stage = await openStage({ queueLimits: { events: 100, bytes: 10_000_000 } });
		await using slow = openSlow(stage);
		stage.write("msg_a", "prt_a", 80);
		await stage.until(() => told(stage.seen, "message.part.delta").length === 80);
		expect(stage.seen.filter(({ type }) => type === "text")).toHaveLength(80);
		await slow.release();
		// Each delta comes raw and as text: 160 do not fit, and what had to go was text alone.
		expect(told(slow.seen, "message.part.delta")).toHaveLength(80);
		expect(slow.seen.filter(({ type }) => type === "text").length + slow.dropped()).toBe(80);
		expect(slow.dropped()).toBeGreaterThanOrEqual(60);
	});

	test("one that is slower still loses the oldest events, never what the conversation is about", async () => {
		await using stage = await openStage({ queueLimits: { events: 100, bytes: 10_000_000 } });
		const { api, talk } = stage;
		await using slow = openSlow(stage);
		const id = await talk.send("Go");
		stage.busy();
		stage.assistant("msg_a", id, "stop", { text: "Done." });
		stage.status("idle");
		await talk.settled();
		for (let n = 0; n < 1_000; n += 1) api.tell("todo.updated", { sessionID: "ses_root", n });
		await stage.until(() => told(stage.seen, "todo.updated").length === 1_000);
		await slow.release();
		const kept = told(slow.seen, "todo.updated").map(({ n }) => n);
		expect(kept).toEqual(Array.from({ length: kept.length }, (_, n) => 1_000 - kept.length + n));
		expect(slow.seen.length).toBeLessThan(110);
		expect(slow.seen.filter(({ type }) => type === "message" || type === "turn-end")).toHaveLength(2);
		const raw = (events: ConversationEvent[]) =>
			events.filter(({ type }) => type === "agent-event" || type === "text").length;
		expect(slow.dropped()).toBe(raw(stage.seen) - raw(slow.seen));
	});

	test("few large events are as many as fit into memory, too", async () => {
		await using stage = await openStage({ queueLimits: { events: 10_000, bytes: 100_000 } });
		await using slow = openSlow(stage);
		const text = "x".repeat(10_000);
		for (let n = 0; n < 50; n += 1) stage.api.tell("todo.updated", { sessionID: "ses_root", n, text });
		await stage.until(() => told(stage.seen, "todo.updated").length === 50);
		await slow.release();
		expect(told(slow.seen, "todo.updated").length).toBeLessThanOrEqual(10);
		expect(told(slow.seen, "todo.updated").at(-1)).toMatchObject({ n: 49 });
		expect(slow.dropped()).toBeGreaterThanOrEqual(40);
	});

	test("may leave twice, and while they are told", async () => {
		await using stage = await openStage();
		const { api, talk } = stage;
		let told = 0;
		const leaving = talk.subscribe(({ type }) => {
			if (type !== "agent-event") return;
			told += 1;
			leaving[Symbol.dispose]();
			leaving[Symbol.dispose]();
		});
		for (let n = 0; n < 3; n += 1) api.tell("todo.updated", { sessionID: "ses_root", n });
		await stage.until(() => stage.seen.filter(({ type }) => type === "agent-event").length === 3);
		expect(told).toBe(1);
	});
});

/** A listener that takes nothing until it is released, and then everything that is left for it. */
function openSlow({ api, talk, until }: Awaited<ReturnType<typeof openStage>>) {
	const gate = Promise.withResolvers<void>();
	const seen: ConversationEvent[] = [];
	talk.subscribe(async (event) => {
		seen.push(event);
		await gate.promise;
	});
	return {
		seen,
		dropped: () => seen.reduce((sum, event) => sum + (event.type === "overflow" ? event.dropped : 0), 0),
		async release() {
			gate.resolve();
			api.tell("session.diff", { sessionID: "ses_root" });
			await until(() => told(seen, "session.diff").length === 1);
		},
		async [Symbol.asyncDispose]() {
			gate.resolve();
		},
	};
}

function told(events: ConversationEvent[], name: string): Record<string, unknown>[] {
	return events.flatMap((event) =>
		event.type === "agent-event" && event.name === name ? [event.properties] : [],
	);
}

async function openStage(
	options: Partial<Omit<Parameters<typeof openServeConversation>[0], "times">> & {
		times?: Partial<ServeTimes>;
	} = {},
) {
	const api: FakeApi = await openFakeApi();
	const times = { reconnectMs: [5, 10], retryMs: [5, 10], ...options.times };
	const talk = await openServeConversation({
		url: api.url,
		password: PASSWORD,
		directory: "/link",
		...options,
		times,
	});
	const seen: ConversationEvent[] = [];
	talk.subscribe((event) => void seen.push(event));
	const status = (type: string) => api.tell("session.status", { sessionID: "ses_root", status: { type } });
	const finished = (id: string, parentID: string, finish: string) =>
		api.tell("message.updated", {
			sessionID: "ses_root",
			info: {
				id,
				parentID,
				sessionID: "ses_root",
				role: "assistant",
				finish,
				time: { created: 1, completed: 2 },
			},
		});
	return {
		api,
		talk,
		seen,
		status,
		finished,
		busy: () => status("busy"),
		/** A whole assistant message, as the stream tells it. */
		assistant(id: string, parentID: string, finish: string, { text }: { text: string }) {
			const part = (partId: string, type: string, more: object = {}) =>
				api.tell("message.part.updated", {
					part: { id: `${partId}_${id}`, sessionID: "ses_root", messageID: id, type, ...more },
				});
			part("prt_1", "step-start");
			if (text !== "") part("prt_2", "text", { text, time: { start: 1, end: 2 } });
			part("prt_3", "step-finish");
			finished(id, parentID, finish);
		},
		/** Text as it is being written, in so many pieces. */
		write(messageID: string, partID: string, pieces: number) {
			const place = { sessionID: "ses_root", messageID };
			api.tell("message.part.updated", { part: { ...place, id: partID, type: "text", text: "" } });
			for (let n = 0; n < pieces; n += 1)
				api.tell("message.part.delta", { ...place, partID, field: "text", delta: "x" });
		},
		ask: (id: string, sessionID = "ses_root") => api.tell("permission.asked", asked(id, sessionID)),
		turns: () => seen.flatMap((event) => (event.type === "turn-end" ? [event.turn] : [])),
		ends: () => seen.flatMap((event) => (event.type === "ask-end" ? [event.end] : [])),
		async until(found: () => boolean) {
			while (!found()) await delay(2);
		},
		async [Symbol.asyncDispose]() {
			await talk.finish();
			await api[Symbol.asyncDispose]();
		},
	};
}

function asked(id: string, sessionID = "ses_root") {
	return { id, sessionID, permission: "bash", patterns: ["ls"], metadata: {}, always: [] };
}

function stored(id: string, parentID: string, text: string) {
	const info = {
		id,
		parentID,
		sessionID: "ses_root",
		role: "assistant",
		finish: "stop",
		time: { created: 1, completed: 2 },
	};
	const part = {
		id: `prt_${id}`,
		sessionID: "ses_root",
		messageID: id,
		type: "text",
		text,
		time: { start: 1, end: 2 },
	};
	return { info, parts: [part] };
}
