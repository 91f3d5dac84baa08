import { expect, test } from "vitest";
import { type SseEvent, SseParser } from "../../src/gateway/protocols/sse.ts";

const read = (...chunks: string[]): SseEvent[] => {
	const parser = new SseParser();
	const events = chunks.flatMap((chunk) => parser.push(Buffer.from(chunk, "latin1")));
	const last = parser.end();
	return last ? [...events, last] : events;
};
const data = (events: SseEvent[]) => events.map((event) => event.data);
const bytes = (text: string) => Buffer.from(text).toString("latin1");

test.each([
	["line feeds", 'data: {"a":1}\n\ndata: [DONE]\n\n', ['{"a":1}', "[DONE]"]],
	["carriage returns and line feeds", "data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]],
	["no space after the colon", "data:a\n\n", ["a"]],
	["several data lines", "data: a\ndata: b\n\n", ["a\nb"]],
	["extra blank lines", "\n\ndata: a\n\n\n\ndata: b\n\n", ["a", "b"]],
	["other fields", "id: 1\nevent: x\nretry: 5\ndata: a\n\n", ["a"]],
	["comments", ": hello\n\ndata: a\n\n", [null, "a"]],
	["a last event without its blank line", "data: a\n\ndata: b", ["a", "b"]],
	["an empty data line", "data:\n\n", [""]],
	["text that is no event stream", "<html>\n\n<body>\n\n", []],
	["nothing", "", []],
])("%s", (_what, text, expected) => {
	expect(data(read(text))).toEqual(expected);
	expect(data(read(...text))).toEqual(expected);
});

test("an event's name is read, and its bytes are kept as they came", () => {
	const [event] = read("event: ping\ndata: {}\n\n");
	expect(event).toMatchObject({ name: "ping", data: "{}" });
	expect(String(event!.raw)).toBe("event: ping\ndata: {}\n\n");
});

test("characters of several bytes survive every cut", () => {
	const text = bytes("data: ✓ wörld 🦙\n\ndata: ünd\r\n\r\n");
	for (let first = 0; first < text.length; first += 1)
		for (let second = first; second < text.length; second += 1) {
			const events = read(text.slice(0, first), text.slice(first, second), text.slice(second));
			expect(data(events)).toEqual(["✓ wörld 🦙", "ünd"]);
			expect(events.map((event) => event.raw.toString("latin1")).join("")).toBe(text);
		}
});

test("an event without end is refused before it fills the memory", () => {
	const parser = new SseParser(1000);
	expect(() => {
		for (let i = 0; i < 100; i += 1) parser.push(Buffer.from("data: xxxxxxxxxxxxxxxxxxxx"));
	}).toThrow(/larger/);
});
