import { describe, expect, type TestContext, test } from "vitest";
import type { RolloutRequest } from "../../src/model/request.ts";
import { RolloutRow } from "../../src/model/rollout.ts";
import { follow } from "../../src/store/follow.ts";
import { SCHEMA_VERSION } from "../../src/store/schema-version.ts";
import { COMPLETED, newRollout, request, running, type StoreFixture } from "./conformance.ts";

export interface RestingFixture extends StoreFixture {
	/** How much rests on disk. */
	sizeBytes(): Promise<number>;
	/** Says of what rests there that another version of Paddock wrote it. */
	setVersion(version: number): Promise<void>;
	/** Changes what rests there behind the store's back. */
	tamper(sql: string): Promise<void>;
}

const FILE_BYTES = 300_000;
const N = 20;
const UNREADABLE = "UPDATE tasks SET body = 'no JSON'";

/** A task may weigh megabytes and be tried a thousand times: it is kept once, and read only by who needs it. */
export function taskConformance(
	name: string,
	openFixture: (context: TestContext) => Promise<RestingFixture>,
): void {
	describe(`${name} keeps a task apart from its rollouts`, () => {
		test("a submission, its rows and a list of them neither repeat nor read the task", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const shared = largeRequest({ labels: { run: "a" }, priority: 7, sandbox: "docker" });
			const submission = { rollouts: Array.from({ length: N }, () => newRollout({ request: shared })) };
			const { rollouts } = await store.submit(submission);
			expect((await store.get(rollouts[0]!.id))?.request).toEqual(shared);
			await fixture.tamper(UNREADABLE);
			const { items } = await store.list({}, { limit: N, order: "oldest" });
			const row = await store.row(items[0]!.id);

			expect(items).toEqual(rollouts);
			expect(row).toEqual(items[0]);
			expect(RolloutRow.strict().parse(row)).toMatchObject({
				id: submission.rollouts[0]!.id,
				endpoint: { type: "policy", policy: "noop" },
				sandbox: "docker",
				mode: "transparent_proxy",
				priority: 7,
				labels: { run: "a" },
			});
			expect(await store.row("ro_nobody")).toBeNull();
			// Whoever reads the task now cannot but fail.
			await expect(store.get(row!.id)).rejects.toThrow();
		});

		test("a task rests once, however many rollouts and submissions try it", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { task } = largeRequest();
			for (const priority of [1, 2, 3]) {
				const again = Array.from({ length: N }, () =>
					newRollout({ request: request({ task: structuredClone(task), priority }) }),
				);
				await store.submit({ rollouts: again });
				for (const { id } of again) expect((await store.get(id))?.request).toMatchObject({ task, priority });
			}
			expect(await fixture.sizeBytes()).toBeLessThan(4 * FILE_BYTES);
		});

		test("tasks that differ only a little stay apart", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const requests = ["one", "One", "one "].map((instruction) =>
				request({ task: { id: "t", instruction } }),
			);
			const { rollouts } = await store.submit({
				rollouts: requests.map((each) => newRollout({ request: each })),
			});
			const kept = await Promise.all(rollouts.map(async ({ id }) => (await store.get(id))?.request));
			expect(kept).toEqual(requests);
		});

		test("who follows a rollout does not read its task again and again", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store, { request: largeRequest() });
			await fixture.tamper(UNREADABLE);
			const types: string[] = [];
			for await (const event of follow(store, id)) {
				types.push(event.type);
				if (event.type === "rollout-start") await store.append(id, 1, [{ type: "note", text: "busy" }]);
				if (event.type === "note") await store.finish(id, 1, COMPLETED);
			}
			expect(types).toEqual(["rollout-queued", "rollout-start", "note", "rollout-end"]);
			await expect(store.get(id)).rejects.toThrow();
		});

		test("a store whose tables are of another version is refused, newer or older, and left as it is", async (context) => {
			await using fixture = await openFixture(context);
			const submission = { rollouts: [newRollout()] };
			{
				await using store = await fixture.open();
				await store.submit(submission);
			}
			await fixture.setVersion(SCHEMA_VERSION + 1);
			await expect(fixture.open()).rejects.toMatchObject({
				code: "store_too_new",
				message: expect.stringContaining("newer Paddock"),
			});
			await fixture.setVersion(SCHEMA_VERSION - 1 || -1);
			await expect(fixture.open()).rejects.toMatchObject({ code: "store_too_old" });
			await fixture.setVersion(SCHEMA_VERSION);
			await using store = await fixture.open();
			expect(await store.counts()).toMatchObject({ queued: submission.rollouts.length });
		});
	});
}

/** Its one file is random, so that no database makes it small. */
function largeRequest(change: Record<string, unknown> = {}): RolloutRequest {
	return request({
		task: { id: "large", instruction: "Look.", files: [{ path: "a", content: FILE }] },
		...change,
	});
}

const FILE = Buffer.from(Array.from({ length: FILE_BYTES / 2 }, () => Math.random() * 256)).toString("hex");
