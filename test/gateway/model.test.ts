import { expect, test } from "vitest";
import { stream, streams } from "../fakes/replies.ts";
import { CHAT, openStation } from "./station.ts";

test("from the moment another model is chosen, calls go to that one, whatever the agent names", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	await station.ask(tap.key, CHAT);
	tap.setModel("another/model:7b");
	await station.ask(tap.key, { ...CHAT, messages: [{ role: "user", content: "And now?" }] });
	const asked = station.upstream.received.map(({ body }) => (body as { model: string }).model);
	expect(asked).toHaveLength(2);
	expect(asked[0]).not.toBe(asked[1]);
	expect(asked[1]).toBe("another/model:7b");
});
