import { expect, test } from "vitest";
import type { AgentMessage, AgentRun } from "../../src/agent/agent.ts";
import { newId } from "../../src/model/id.ts";
import { Attendant } from "../../src/rollout/attendant.ts";
import { RolloutRecord } from "../../src/rollout/record.ts";
import { task } from "../fixtures/script.ts";
import { openStage, requestOf, type Stage, scriptAgent } from "./fixture.ts";

test("an older transcript that is still being fetched does not come to lie over the last one", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const { attendant, id } = await anAttendant(stage);
	const slow = Promise.withResolvers<AgentMessage[]>();
	const asked = Promise.withResolvers<void>();
	let fetches = 0;
	const run = aRun(() => {
		asked.resolve();
		return fetches++ === 0 ? slow.promise : Promise.resolve([message("last")]);
	});
	attendant.stirred();
	{
		using _attending = attendant.attend(run);
		await asked.promise;
	}
	const kept = attendant.keepTranscript(run);
	slow.resolve([message("older")]);
	await kept;
	const stored = await stage.store.getBlob(id, "transcript.json");
	expect(JSON.parse(String(stored))).toEqual([message("last")]);
});

test("what the policy answers before the run is there reaches it once it is", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const { attendant } = await anAttendant(stage);
	const answered = Promise.withResolvers<string>();
	const run: AgentRun = {
		...aRun(async () => []),
		answerPermission: async (requestId) => {
			answered.resolve(requestId);
			return true;
		},
	};
	attendant.permission({ requestId: "per_1", permission: "bash", patterns: [] });
	// Two turns of the timers: the answer was due in the first.
	for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setTimeout(resolve, 1));
	using _attending = attendant.attend(run);
	expect(await answered.promise).toBe("per_1");
});

async function anAttendant(stage: Stage) {
	const id = newId("ro");
	await stage.store.submit({ rollouts: [{ id, request: requestOf(task()) }], groups: [] });
	const rollout = (await stage.store.begin(id, "test"))!;
	const record = new RolloutRecord(rollout, stage.store, "1", new AbortController().signal);
	return { id, attendant: new Attendant(rollout, stage.store, record) };
}

function aRun(messages: () => Promise<AgentMessage[]>): AgentRun {
	return {
		sessionId: "ses_1",
		wait: () => new Promise(() => {}),
		messages,
		send: async () => {},
		answerPermission: async () => true,
		answerQuestion: async () => true,
		[Symbol.asyncDispose]: async () => {},
	};
}

function message(text: string): AgentMessage {
	return { info: { role: "assistant" }, parts: [{ type: "text", text }] };
}
