import { afterAll, beforeAll, expect, test } from "vitest";
import type { LiveText } from "../../src/model/live-text.ts";
import { createApp } from "../../src/server/app.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { request } from "../store/conformance.ts";
import { clientOf } from "./caller.ts";

const place = { type: "text", sessionId: "ses_1", isChild: false, messageId: "msg_1", kind: "text" } as const;
const at = (offset: number, text: string): LiveText => ({ ...place, partId: "prt_1", offset, text });

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;
beforeAll(async () => {
	paddock = await openIdlePaddock();
	app = createApp(paddock);
});
afterAll(() => paddock[Symbol.asyncDispose]());

test("a stream shows text as it is written; cut off and taken up again it sends what is missing, and no more", async () => {
	const id = await startRollout();
	using voice = paddock.live.speak(id);
	voice.say(at(0, "Once "));
	const first = await open(id);
	expect(await first.until((data) => data.type === "text")).toMatchObject({ offset: 0, text: "Once " });
	voice.say(at(5, "upon "));
	expect(await first.until((data) => data.type === "text")).toMatchObject({ offset: 5, text: "upon " });
	await first.cancel();
	voice.say(at(10, "a time"));

	const second = await open(id, first.lastId);
	expect(await second.until((data) => data.type === "text")).toEqual(at(10, "a time"));
	const part = { id: "prt_1", type: "text", text: "Once upon a time", time: { start: 1, end: 2 } };
	await paddock.store.append(id, 1, [
		{ type: "agent-event", name: "message.part.updated", properties: { part } },
	]);
	expect(await second.until((data) => data.type === "agent-event")).toMatchObject({ properties: { part } });
	expect(second.lastId).toMatch(/^\d+$/);
	await second.cancel();
});

test("the client hands text to who listens for it, and events to everybody", async () => {
	const id = await startRollout();
	const client = clientOf(app);
	const told: LiveText[] = [];
	const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
	const onText = (text: LiveText) => {
		told.push(text);
		(told.length === 1 ? first : second).resolve();
	};
	const listening = Array.fromAsync(client.events(id, { onText }));
	const deaf = Array.fromAsync(client.events(id));
	using voice = paddock.live.speak(id);
	voice.say(at(0, "one "));
	await first.promise;
	voice.say(at(4, "two"));
	await second.promise;
	await paddock.store.finish(id, 1, { outcome: "completed", reward: 1, failure: null, summary: null });
	expect(await listening).toEqual(await deaf);
	expect(told).toEqual([at(0, "one "), at(4, "two")]);
});

test("who does not ask for it is told nothing but what is stored", async () => {
	const id = await startRollout();
	using voice = paddock.live.speak(id);
	voice.say(at(0, "unheard"));
	const stream = await open(id, undefined, "");
	await paddock.store.finish(id, 1, { outcome: "completed", reward: 1, failure: null, summary: null });
	await stream.until((data) => data.type === "rollout-end");
	expect(stream.seen.map(({ type }) => type)).not.toContain("text");
	await stream.cancel();
});

test.each(["x", "1;prt", "1;prt_1=x", `1;${"a".repeat(200)}=1`])(
	"a place that is none is refused: %s",
	async (place) => {
		const id = await startRollout();
		const headers = { host: "localhost", accept: "text/event-stream", "last-event-id": place };
		expect((await app.request(`/api/v1/rollouts/${id}/events?live=true`, { headers })).status).toBe(422);
	},
);

async function startRollout(): Promise<string> {
	const { rollouts } = await paddock.submit(request());
	await paddock.store.begin(rollouts[0]!.id, "test-worker");
	return rollouts[0]!.id;
}

async function open(id: string, lastId?: string, query = "?live=true") {
	const headers = {
		...{ host: "localhost", accept: "text/event-stream" },
		...(lastId === undefined ? {} : { "last-event-id": lastId }),
	};
	const response = await app.request(`/api/v1/rollouts/${id}/events${query}`, { headers });
	const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
	let buffer = "";
	const stream = {
		lastId: "",
		seen: [] as { type: string }[],
		async until(wanted: (data: { type: string }) => boolean): Promise<{ type: string }> {
			for (;;) {
				const end = buffer.indexOf("\n\n");
				if (end === -1) {
					buffer += (await reader.read()).value ?? "";
					continue;
				}
				const frame = buffer.slice(0, end);
				buffer = buffer.slice(end + 2);
				const data = /^data: (.*)$/m.exec(frame)?.[1];
				if (data === undefined) continue;
				stream.lastId = /^id: (.*)$/m.exec(frame)![1]!;
				const parsed = JSON.parse(data) as { type: string };
				stream.seen.push(parsed);
				if (wanted(parsed)) return parsed;
			}
		},
		cancel: () => reader.cancel(),
	};
	return stream;
}
