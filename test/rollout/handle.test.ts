import { expect, test } from "vitest";
import { RolloutError } from "../../src/errors.ts";
import { newId } from "../../src/model/id.ts";
import type { Deps } from "../../src/rollout/deps.ts";
import { handle } from "../../src/rollout/handle.ts";
import { task } from "../fixtures/script.ts";
import { openStage, requestOf, type Stage, scriptAgent } from "./fixture.ts";

test("a rollout whose worker is drained goes back to the queue, and that is no failed try", async () => {
	await using stage = await openStage(scriptAgent("sleep 60"));
	const drained = new AbortController();
	const { id, end } = await startWorking(stage, drained.signal);
	drained.abort();
	expect(await end).toBe("retry");
	expect(await stage.store.get(id)).toMatchObject({
		status: "queued",
		attempt: 1,
		handedBack: 1,
		outcome: null,
	});
});

test("a rollout that somebody aborts ends as aborted, also when its worker is drained meanwhile", async () => {
	await using stage = await openStage(scriptAgent("sleep 60"));
	const drained = new AbortController();
	const { id, end } = await startWorking(stage, drained.signal);
	await stage.store.requestAbort({ id });
	drained.abort();
	await end;
	expect(await stage.store.get(id)).toMatchObject({ status: "done", outcome: "aborted", failure: null });
});

test("a stored rollout names its sandbox while it runs", async () => {
	await using stage = await openStage(scriptAgent("sleep 60"));
	const drained = new AbortController();
	const { id, end } = await startWorking(stage, drained.signal);
	expect((await stage.store.get(id))?.sandboxId).toEqual(expect.any(String));
	drained.abort();
	await end;
});

test("a box that cannot be opened is tried again, and then no more", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const failing = withBoxes(
		stage,
		new RolloutError("sandbox", "sandbox_open_failed", "x", { retryable: true }),
	);
	const id = await submit(stage);
	expect(await handle(job(id), failing, "w")).toBe("retry");
	expect(await stage.store.get(id)).toMatchObject({ status: "queued", attempt: 1 });
	expect(await handle(job(id), failing, "w")).toBe("done");
	expect(await stage.store.get(id)).toMatchObject({ status: "done", outcome: "failed", attempt: 2 });
	const bug = await submit(stage);
	expect(await handle(job(bug), withBoxes(stage, new Error("no engine")), "w")).toBe("done");
	expect((await stage.store.get(bug))?.failure).toMatchObject({ code: "unclassified", message: "no engine" });
});

/** Resolves when the agent is at work. */
async function startWorking(stage: Stage, signal: AbortSignal) {
	const id = await submit(stage);
	const working = Promise.withResolvers<void>();
	const look = async () => {
		const rollout = await stage.store.get(id);
		if (rollout?.phase === "agent" && rollout.sandboxId) working.resolve();
	};
	using _watching = stage.store.watch(id, () => void look());
	const end = handle({ rolloutId: id, signal }, stage.deps, "w");
	await Promise.race([working.promise, end]);
	return { id, end };
}

async function submit(stage: Stage): Promise<string> {
	const id = newId("ro");
	await stage.store.submit({ rollouts: [{ id, request: requestOf(task()) }], groups: [] });
	return id;
}

function withBoxes(stage: Stage, error: Error): Deps {
	return { ...stage.deps, boxes: { open: () => Promise.reject(error) } };
}

function job(rolloutId: string) {
	return { rolloutId, signal: new AbortController().signal };
}
