import { expect, test } from "vitest";
import type { Agent } from "../../src/agent/agent.ts";
import { newId } from "../../src/model/id.ts";
import type { RolloutRequest } from "../../src/model/request.ts";
import { ColdBoxes } from "../../src/rollout/boxes/cold-boxes.ts";
import { WarmBoxes } from "../../src/rollout/boxes/warm-boxes.ts";
import { RolloutRecord } from "../../src/rollout/record.ts";
import type { Backend } from "../../src/sandbox/sandbox.ts";
import { task } from "../fixtures/script.ts";
import { changed, openStage, requestOf, type Stage, scriptAgent } from "./fixture.ts";

const never = new AbortController().signal;

test("no more boxes are made ahead for tasks than the pool holds, however many tasks there are", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const counted = countBoxes(await stage.ready.backend("local"));
	await using warm = openWarm(stage, 1, { backend: async () => counted.backend, upcoming: async () => 5 });
	for (const id of ["a", "b", "c"]) {
		await warm.settled();
		await using _ready = await warm.open(
			requestOf(task({ id, setup: [`echo ${id}`] })),
			await aRecord(stage),
			never,
		);
	}
	await warm.settled();
	expect(counted.open()).toBe(2);
});

test("closing the pool closes every box of it", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const counted = countBoxes(await stage.ready.backend("local"));
	{
		await using warm = openWarm(stage, 2, {
			backend: async () => counted.backend,
			upcoming: async () => 2,
		});
		await warm.settled();
		await using _ready = await warm.open(requestOf(task()), await aRecord(stage), never);
	}
	expect(counted.open()).toBe(0);
});

test("a rollout that is stopped while its box is being made does not wait for it", async () => {
	const booting = Promise.withResolvers<void>();
	const stuck: Agent = { ...scriptAgent("true"), boot: () => new Promise(() => booting.resolve()) };
	await using stage = await openStage(stuck);
	// Never closed: the box that is being made would be waited for. The stage closes it.
	const warm = openWarm(stage, 1, { upcoming: async () => 0 });
	await booting.promise;
	const stop = new AbortController();
	const opening = warm.open(requestOf(task()), await aRecord(stage), stop.signal);
	stop.abort();
	await expect(opening).rejects.toThrow(/aborted/);
});

function openWarm(
	stage: Stage,
	size: number,
	options: { backend?: Stage["ready"]["backend"]; upcoming: () => Promise<number> },
): WarmBoxes {
	const ready = { ...stage.ready, ...options };
	const generic: RolloutRequest = requestOf(task({ id: "warm" }));
	return new WarmBoxes({ ...ready, cold: new ColdBoxes(ready), size, generic, warn: () => {} });
}

async function aRecord(stage: Stage): Promise<RolloutRecord> {
	const id = newId("ro");
	await stage.store.submit({ rollouts: [{ id, request: requestOf(task()) }], groups: [] });
	return new RolloutRecord((await stage.store.begin(id, "test"))!, stage.store, "1", never);
}

function countBoxes(backend: Backend) {
	const open = new Set<string>();
	return {
		open: () => open.size,
		backend: changed(backend, {
			async open(options) {
				const box = await backend.open(options);
				open.add(box.id);
				void box.closed.then(() => open.delete(box.id));
				return box;
			},
		}),
	};
}
