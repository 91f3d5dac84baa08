import { describe, expect, test } from "vitest";
import { ConversationRequest } from "../../src/model/conversation.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import { openIdlePaddock } from "../fixtures/idle-paddock.ts";

const plain = { task: { id: "t", instruction: "say hello" }, endpoint: { type: "policy", policy: "noop" } };
const request = (change: object = {}) => RolloutRequest.parse({ ...plain, ...change });

const UNACCEPTABLE: [title: string, change: object, code: string, message: RegExp][] = [
	["a NUL in an instruction", { task: { id: "t", instruction: "a\0" } }, "bad_text", /task\.instruction/],
	["half a character in a label", { labels: { team: "\ud800" } }, "bad_text", /labels\.team/],
	["half a character in a label's name", { labels: { "\ud800": "x" } }, "bad_text", /a name in .*labels/],
	[
		"a NUL in a file",
		{ task: { id: "t", instruction: "x", files: [{ path: "a", content: "b\0" }] } },
		"bad_text",
		/task\.files\.content.*base64/,
	],
	["a box without walls", { sandbox: "process" }, "sandbox_refused", /PADDOCK_SANDBOX=process/],
	["an unknown policy", { endpoint: { type: "policy", policy: "nope" } }, "unknown_policy", /nope/],
	[
		"a folder of the server as image",
		{ task: { id: "t", instruction: "x", box: { image: "/srv/secrets" } } },
		"image_folder_refused",
		/box\.image/,
	],
	[
		"the whole internet",
		{ task: { id: "t", instruction: "x", box: { network: "internet" } } },
		"internet_refused",
		/PADDOCK_INTERNET=allow/,
	],
];

test("the whole internet is there for whoever has the machine, and where the operator allows it", async () => {
	const online = request({ task: { id: "t", instruction: "x", box: { network: "internet" } } });
	await using own = await openIdlePaddock();
	expect((await own.submit(online)).rollouts).toHaveLength(1);
	await using allowed = await openIdlePaddock({ token: "a token", env: { PADDOCK_INTERNET: "allow" } });
	expect((await allowed.submit(online)).rollouts).toHaveLength(1);
});

describe.each(UNACCEPTABLE)("%s is refused, whoever asks", (_title, change, code, message) => {
	test("one rollout", async () => {
		await using paddock = await openIdlePaddock({ token: "a token for strangers" });
		const refused = paddock.submit(request(change));
		await expect(refused).rejects.toMatchObject({ name: "UsageError", code });
		await expect(refused).rejects.toThrow(message);
		expect((await paddock.status()).rollouts.queued).toBe(0);
	});

	test("a whole batch with it", async () => {
		await using paddock = await openIdlePaddock({ token: "a token for strangers" });
		await expect(paddock.submitBatch([request(), request(change)], { n: 2 })).rejects.toMatchObject({ code });
		expect((await paddock.status()).rollouts.queued).toBe(0);
	});
});

test("rules that would become gigabytes, one copy for each rollout, are refused", async () => {
	await using paddock = await openIdlePaddock({ queueLimit: 100_000_000 });
	const rule = { tool: "bash", pattern: "x".repeat(2_000), action: "deny" };
	const agent = { permissionRules: Array(500).fill(rule) };
	await expect(paddock.submit(request({ agent }), { n: 1024 })).rejects.toMatchObject({
		code: "submission_too_large",
	});
});

test("an id that no store could hold is an unknown one", async () => {
	await using paddock = await openIdlePaddock();
	expect(await paddock.rollout("ro_\0")).toBeNull();
	expect(await paddock.events("\ud800", { after: 0, limit: 1 })).toBeNull();
	expect(await paddock.abort({ id: "\0" })).toEqual([]);
	expect(await paddock.command("\0", { type: "send", text: "hello", by: "me" })).toBe(false);
	await expect(paddock.list({ taskId: "\0" }, { limit: 1 })).rejects.toMatchObject({ code: "bad_text" });
});

test("who has ended hears nothing, and says so at every door in the same words", async () => {
	await using paddock = await openIdlePaddock();
	const { rollouts } = await paddock.submit(request());
	const { id } = rollouts[0]!;
	await paddock.abort({ id });
	const talk = await paddock.converse(ConversationRequest.parse({ endpoint: plain.endpoint }));
	await paddock.closeConversation(talk.id);
	const said = { type: "send" as const, text: "hello", by: "me" };
	await expect(paddock.command(id, said)).rejects.toMatchObject({ code: "rollout_ended" });
	await expect(paddock.command(talk.id, said)).rejects.toMatchObject({ code: "conversation_closed" });
	expect(await paddock.command("ro_nobody", said)).toBe(false);
});

test("four with one key sent at once make one rollout, however small the queue", async () => {
	await using paddock = await openIdlePaddock({ queueLimit: 1 });
	const four = await Promise.all(
		Array.from({ length: 4 }, () => paddock.submit(request(), { idempotencyKey: "once" })),
	);
	expect(new Set(four.map(({ rollouts }) => rollouts[0]?.id)).size).toBe(1);
	await expect(paddock.submit(request())).rejects.toMatchObject({ code: "queue_full" });
});
