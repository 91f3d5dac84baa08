import { expect, test } from "vitest";
import type { AgentMessage } from "../../src/agent/agent.ts";
import { Transcript } from "../../src/rollout/transcript.ts";

test("an older transcript that is still being fetched does not come to lie over the last one", async () => {
	const stored: string[] = [];
	const putBlob = async (_id: string, _attempt: number, _name: string, data: Uint8Array) => {
		stored.push(String(data));
	};
	const transcript = new Transcript({ id: "ro_1", attempt: 1 }, { putBlob });
	const slow = Promise.withResolvers<AgentMessage[]>();
	const asked = Promise.withResolvers<void>();
	let fetches = 0;
	const talker = {
		messages() {
			asked.resolve();
			return fetches++ === 0 ? slow.promise : Promise.resolve([message("last")]);
		},
	};
	transcript.stirred();
	{
		using _following = transcript.follow(talker);
		await asked.promise;
	}
	const kept = transcript.keep(talker);
	slow.resolve([message("older")]);
	await kept;
	expect(stored.map((text) => JSON.parse(text))).toEqual([[message("older")], [message("last")]]);
});

function message(text: string): AgentMessage {
	return { info: { role: "assistant" }, parts: [{ type: "text", text }] };
}
