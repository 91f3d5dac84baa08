import { afterAll, expect, type TestContext, test } from "vitest";
import type { Live } from "../../src/live/live.ts";
import { LocalLive } from "../../src/live/local.ts";
import { PostgresLive } from "../../src/live/postgres.ts";
import { readLive } from "../../src/live/reading.ts";
import { packFirst, toFrame, toPiece, unpack } from "../../src/live/wire.ts";
import { type LiveText, POSITION, parsePosition, toPosition } from "../../src/model/live-text.ts";
import { type Postgres, requirePostgres, startPostgres } from "../fixtures/postgres.ts";

const ID = "ro_1";
const PATIENT = { timeout: 30_000 };
const place = { type: "text", sessionId: "ses_1", isChild: false, messageId: "msg_1", kind: "text" } as const;
const at = (offset: number, text: string, partId = "prt_1"): LiveText => ({ ...place, partId, offset, text });

/** Puts together what was told, as a viewer does. */
class Viewer {
	readonly texts = new Map<string, string>();
	characters = 0;

	readonly see = ({ partId, offset, text }: LiveText): void => {
		this.characters += text.length;
		this.texts.set(partId, (this.texts.get(partId) ?? "").slice(0, offset) + text);
	};

	get text(): string {
		return this.texts.get("prt_1") ?? "";
	}
}

test("whoever comes late gets what is being written from its beginning, and nothing of what is finished", () => {
	const live = new LocalLive();
	const [early, late, last] = [new Viewer(), new Viewer(), new Viewer()];
	using voice = live.speak(ID);
	using _early = live.hear(ID, early.see);
	voice.say(at(0, "one "));
	voice.say(at(4, "two "));
	using _late = live.hear(ID, late.see);
	voice.say(at(8, "three"));
	// The agent thought better of it.
	voice.say(at(4, "2"));
	expect([early.text, late.text]).toEqual(["one 2", "one 2"]);
	voice.finished("prt_1");
	using _last = live.hear(ID, last.see);
	expect(last.texts.size).toBe(0);
});

test("a listener that throws takes nothing from the others", () => {
	const live = new LocalLive();
	const viewer = new Viewer();
	using _broken = live.hear(ID, () => {
		throw new Error("not now");
	});
	using _viewing = live.hear(ID, viewer.see);
	using voice = live.speak(ID);
	voice.say(at(0, "on it goes"));
	expect(viewer.text).toBe("on it goes");
});

test("what does not fit into one notification goes in several, whatever it is made of", () => {
	const hostile = [
		"\0".repeat(5_000),
		"\ud83d\udc18".repeat(4_000),
		'"\\\n'.repeat(3_000),
		"é".repeat(20_000),
		"x",
	];
	for (const text of hostile) {
		const waiting = [toFrame(ID, { ...at(7, text), cuts: true })];
		let said = "";
		let cuts = 0;
		while (waiting.length > 0) {
			const payload = packFirst("me", waiting);
			expect(Buffer.byteLength(payload)).toBeLessThan(8_000);
			expect(payload).not.toContain("\0");
			for (const frame of unpack(payload)!.frames) {
				if (!("t" in frame)) throw new Error("only text was sent");
				const { piece } = toPiece(frame);
				expect(piece.offset).toBe(7 + said.length);
				said += piece.text;
				cuts += piece.cuts ? 1 : 0;
			}
		}
		expect(said === text).toBe(true);
		expect(cuts).toBe(1);
	}
	for (const foreign of ["", "{", "[]", '{"from":1}', '{"from":"x","frames":[{"t":1}]}'])
		expect(unpack(foreign)).toBeNull();
});

test("a place in the stream is one word that a browser hands back by itself", () => {
	const have = new Map([
		["prt_a", 12],
		["prt_b", 0],
	]);
	const word = toPosition(42, have);
	expect(word).toBe("42;prt_a=12;prt_b=0");
	expect(word).toMatch(POSITION);
	expect(parsePosition(word)).toEqual({ after: 42, have });
	expect(parsePosition("7")).toEqual({ after: 7, have: new Map() });
	for (const bad of ["", "x", "1;", "1;a", "1;a=b", "1;a=1;", `1${";a=1".repeat(17)}`])
		expect(bad).not.toMatch(POSITION);
});

test("a reader that comes back gets only what it has not, and the log's own word last", async () => {
	const live = new LocalLive();
	using voice = live.speak(ID);
	voice.say(at(0, "Hello, wor"));
	const log = new Log();
	const first = readLive(new Log().events(), live, ID);
	const seen = (await first.next()).value;
	expect(seen).toEqual({ text: at(0, "Hello, wor"), have: new Map([["prt_1", 10]]) });
	await first.return(undefined);
	voice.say(at(10, "ld"));
	const { have } = seen as { have: ReadonlyMap<string, number> };
	const second = readLive(log.events(), live, ID, { have });
	expect((await second.next()).value).toMatchObject({ text: { offset: 10, text: "ld" } });
	// What waits when the log has the text comes before it, and nothing after it.
	voice.say(at(12, "!"));
	log.add(finished("prt_1"));
	expect((await second.next()).value).toMatchObject({ text: { offset: 12, text: "!" } });
	expect((await second.next()).value).toMatchObject({ event: { type: "agent-event" } });
	voice.say(at(13, "?"));
	log.add({ type: "note" });
	expect((await second.next()).value).toEqual({ event: { type: "note" }, have: new Map() });
	log.end();
	expect((await second.next()).done).toBe(true);
});

test("a log that is quicker than the last pieces loses none of them: the end comes before its event, and once", async () => {
	const live = new LocalLive();
	using voice = live.speak(ID);
	const log = new Log();
	const reading = readLive(log.events(), live, ID);
	voice.say(at(0, "Hello, wor"));
	await reading.next();
	log.add(finished("prt_1", "Hello, world!"));
	expect((await reading.next()).value).toMatchObject({ text: { offset: 10, text: "ld!" } });
	expect((await reading.next()).value).toMatchObject({ event: { type: "agent-event" } });
	voice.say(at(10, "ld!"));
	// Of a text that it has seen nothing of, a reader gets the event alone.
	log.add(finished("prt_2", "Unseen."));
	expect((await reading.next()).value).toMatchObject({ event: { properties: { part: { id: "prt_2" } } } });
	// Only the head of a long text is in the log: what waits is told as it came.
	voice.say({ ...at(0, "x".repeat(5_000)), partId: "prt_3" });
	await reading.next();
	voice.say({ ...at(5_000, "y"), partId: "prt_3" });
	log.add(finished("prt_3", `${"x".repeat(4_000)}… (5001 characters)`));
	expect((await reading.next()).value).toMatchObject({ text: { offset: 5_000, text: "y" } });
	await reading.return(undefined);
});

test("a slow reader gets larger pieces, not more of them", async () => {
	const live = new LocalLive();
	using voice = live.speak(ID);
	const reading = readLive(new Log().events(), live, ID);
	voice.say(at(0, "a"));
	await reading.next();
	for (let offset = 1; offset <= 1_000; offset += 1) voice.say(at(offset, "b"));
	expect((await reading.next()).value).toMatchObject({ text: { offset: 1, text: "b".repeat(1_000) } });
	await reading.return(undefined);
});

let server: Promise<Postgres> | null = null;
afterAll(async () => (await server)?.[Symbol.asyncDispose]());

async function openTwo(context: TestContext) {
	requirePostgres(context);
	server ??= startPostgres({ fsync: "off" });
	const postgres = await server;
	const open = (): Live => new PostgresLive({ url: postgres.url, schema: "paddock" });
	return { postgres, worker: open(), door: open() };
}

test("what one process's agent writes is seen in another, and only there where somebody looks", async (context) => {
	const { worker, door } = await openTwo(context);
	await using _worker = worker;
	await using _door = door;
	using voice = worker.speak(ID);
	using unheard = worker.speak("ro_2");
	const viewer = new Viewer();
	let whole = "";
	const say = (text: string) => {
		voice.say(at(whole.length, text));
		unheard.say(at(whole.length, text));
		whole += text;
	};
	say("before anybody looked ");
	using _viewing = door.hear(ID, viewer.see);
	await expect.poll(() => viewer.text, PATIENT).toBe(whole);
	for (let count = 0; count < 2_000; count += 1) say(`${count} \0\ud83d\udc18 `);
	say("é".repeat(30_000));
	await expect.poll(() => viewer.text === whole, PATIENT).toBe(true);
	// Each character came once.
	expect(viewer.characters).toBe(whole.length);
	expect([...viewer.texts.keys()]).toEqual(["prt_1"]);
}, 60_000);

test("who looked before the agent spoke sees it from its first word on", async (context) => {
	const { worker, door } = await openTwo(context);
	await using _worker = worker;
	await using _door = door;
	const viewer = new Viewer();
	using _viewing = door.hear(ID, viewer.see);
	using voice = worker.speak(ID);
	voice.say(at(0, "the first word"));
	await expect.poll(() => viewer.text, { timeout: 9_000 }).toBe("the first word");
});

test("after an outage of the database only the missing end is sent", async (context) => {
	const { postgres, worker, door } = await openTwo(context);
	await using _worker = worker;
	await using _door = door;
	using voice = worker.speak(ID);
	const viewer = new Viewer();
	using _viewing = door.hear(ID, viewer.see);
	voice.say(at(0, "before; "));
	await expect.poll(() => viewer.text, PATIENT).toBe("before; ");
	await postgres.outage(async () => {
		voice.say(at(8, "during; "));
	});
	voice.say(at(16, "after"));
	await expect.poll(() => viewer.text, PATIENT).toBe("before; during; after");
	expect(viewer.characters).toBe("before; during; after".length);
}, 60_000);

class Log {
	#waiting: object[] = [];
	#wake = Promise.withResolvers<void>();
	#isOver = false;

	add(event: object): void {
		this.#waiting.push(event);
		this.#wake.resolve();
	}

	end(): void {
		this.#isOver = true;
		this.#wake.resolve();
	}

	async *events(): AsyncGenerator<{ type: string }> {
		for (;;) {
			const next = this.#waiting.shift();
			if (next !== undefined) yield next as { type: string };
			else if (this.#isOver) return;
			else {
				await this.#wake.promise;
				this.#wake = Promise.withResolvers<void>();
			}
		}
	}
}

function finished(id: string, text?: string): object {
	const part = { id, type: "text", text, time: { start: 1, end: 2 } };
	return { type: "agent-event", name: "message.part.updated", properties: { part } };
}
