import { type Duplex, duplexPair } from "node:stream";
import { expect, test } from "vitest";
import { Control } from "../../src/sandbox/box/control.ts";
import { readFrame, readLine } from "../../src/sandbox/box/frames.ts";
import { encodeFrame } from "../../src/sandbox/box/wire.ts";

/** The far end of a connection the control has accepted. */
function connect(control: Control): Duplex {
	const [ours, theirs] = duplexPair();
	control.accept(ours);
	theirs.on("error", () => {});
	return theirs;
}

function greeted(control: Control): Duplex {
	const init = connect(control);
	init.write('{"hello":1,"pid":2,"ports":[7000],"hidden":true}\n');
	return init;
}

const ended = (connection: Duplex) =>
	new Promise((resolve) => connection.resume().on("close", resolve).on("end", resolve));

test("the first hello wins; a second one is hung up on", async () => {
	const control = new Control();
	greeted(control);
	expect(await control.hello).toEqual({ pid: 2, ports: [7000], hidden: true });
	await ended(greeted(control));
	expect(control.lost).toBeNull();
});

test("an operation runs on the connection that shows its nonce, and on no other", async () => {
	const control = new Control();
	const init = greeted(control);
	await control.hello;
	const opening = control.open({ op: "exists", path: "x" });
	const order = JSON.parse((await readLine(init)) ?? "") as { open: string };
	const forger = connect(control);
	forger.write('{"nonce":"guessed"}\n');
	await ended(forger);
	const honest = connect(control);
	honest.write(`${JSON.stringify({ nonce: order.open })}\n`);
	await opening;
	expect((await readFrame(honest))?.payload.toString()).toBe('{"op":"exists","path":"x"}');
	const replay = connect(control);
	replay.write(`${JSON.stringify({ nonce: order.open })}\n`);
	await ended(replay);
});

test.each(["not json\n", "null\n", "[]\n", '{"hello":2}\n', `${"x".repeat(20_000)}`])(
	"a connection that talks nonsense is hung up on (%#)",
	async (nonsense) => {
		const control = new Control();
		const stranger = connect(control);
		stranger.write(nonsense);
		await ended(stranger);
		expect(control.lost).toBeNull();
	},
);

test("strangers beyond a few are hung up on, the oldest first", async () => {
	const control = new Control();
	const strangers = Array.from({ length: 40 }, () => connect(control));
	await Promise.all(strangers.slice(0, 8).map(ended));
	expect(strangers.slice(8).every((stranger) => !stranger.destroyed && !stranger.readableEnded)).toBe(true);
});

test("when the init hangs up, everything under way fails as a lost box", async () => {
	const control = new Control();
	const init = greeted(control);
	await control.hello;
	const opening = control.open({ op: "exists", path: "x" });
	init.destroy();
	await expect(opening).rejects.toMatchObject({ code: "box_lost", retryable: true });
	await expect(control.open({ op: "exists", path: "x" })).rejects.toMatchObject({ code: "box_lost" });
});

test("an init that does not answer makes the box count as lost", async () => {
	const control = new Control(20);
	greeted(control);
	await control.hello;
	await expect(control.open({ op: "exists", path: "x" })).rejects.toMatchObject({ code: "box_unresponsive" });
});

test("a frame is whole however it is split, and one too large is refused before it is read", async () => {
	const frame = encodeFrame(1, "payload");
	for (let cut = 1; cut < frame.length; cut += 1) {
		const [ours, theirs] = duplexPair();
		theirs.write(frame.subarray(0, cut));
		const reading = readFrame(ours);
		await new Promise(setImmediate);
		theirs.write(frame.subarray(cut));
		expect(await reading).toMatchObject({ type: 1, payload: Buffer.from("payload") });
	}
	const [ours, theirs] = duplexPair();
	theirs.on("error", () => {});
	theirs.write(Buffer.from([1, 0xff, 0xff, 0xff, 0xff]));
	await expect(readFrame(ours)).rejects.toMatchObject({ code: "bad_frame" });
});
