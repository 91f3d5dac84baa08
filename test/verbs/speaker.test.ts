import { expect, test } from "vitest";
import { ConversationRequest } from "../../src/model/conversation.ts";
import { interventionOf } from "../../src/model/intervention.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import { openIdlePaddock } from "../fixtures/idle-paddock.ts";

const NAMES = [
	"policy",
	"rule",
	"deadline",
	"interrupt",
	"ghost",
	"elsewhere",
	"close",
	"failure",
	" Policy ",
];

test("nobody speaks under a name that stands for a decision no person made, by any verb", async () => {
	await using paddock = await openIdlePaddock();
	const endpoint = { type: "policy", policy: "noop" } as const;
	const asked = ConversationRequest.parse({ endpoint });
	const { id } = await paddock.converse(asked);
	const { rollouts } = await paddock.submit(
		RolloutRequest.parse({ task: { id: "t", instruction: "x" }, endpoint }),
	);
	const rollout = rollouts[0]!.id;
	for (const by of NAMES)
		for (const say of [
			() => paddock.converse(asked, { by }),
			() => paddock.sendMessage(id, { text: "Go on.", by }),
			() => paddock.reopenConversation(id, { by }),
			() => paddock.command(rollout, { type: "send", text: "Go on.", by }),
			() => paddock.command(rollout, { type: "interrupt", by }),
			() => paddock.command(rollout, { type: "permission", requestId: "per_1", reply: "reject", by }),
			() => paddock.command(rollout, { type: "question", requestId: "que_1", answers: null, by }),
			() => paddock.command(id, { type: "model", model: "m", by }),
		])
			await expect(say(), `${by} ${say}`).rejects.toMatchObject({ code: "name_reserved" });
	expect(await paddock.command(rollout, { type: "send", text: "Go on.", by: "policymaker" })).toBe(true);
});

test("what is said, stopped or chosen is always somebody's; only what was asked can be decided by itself", () => {
	const by = "policy";
	expect(interventionOf({ type: "message-sent", text: "", by }, 1)).toMatchObject({ kind: "message" });
	expect(interventionOf({ type: "interrupted", by }, 1)).toMatchObject({ kind: "interrupt" });
	expect(interventionOf({ type: "model-set", model: "m", by }, 1)).toMatchObject({ kind: "model" });
	expect(interventionOf({ type: "permission-end", requestId: "p", reply: "reject", by }, 1)).toBeNull();
	expect(interventionOf({ type: "question-end", requestId: "q", by }, 1)).toBeNull();
	expect(interventionOf({ type: "question-end", requestId: "q", by: "anna" }, 1)).toMatchObject({
		by: "anna",
	});
});
