import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RolloutEvent } from "../../src/model/event.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import type { PolicyStep } from "../../src/policy/policy.ts";
import { toolOutputs } from "../fixtures/evidence.ts";
import { openTestPaddock, type TestPaddock, type TestRequest } from "../fixtures/paddock.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";

let station: TestPaddock;
beforeAll(async () => {
	station = await openTestPaddock();
});
afterAll(async () => await station?.[Symbol.asyncDispose]());

describe("a live rollout", () => {
	test("an abort stops it, keeps what was captured, and gives no reward", async () => {
		await using model = await openScriptedModel([bash("touch started; sleep 300"), say("done")]);
		const id = await start({ task: task({ verify: ["true"] }), endpoint: model.endpoint });
		await until(id, (event) => event.type === "agent-event" && JSON.stringify(event).includes('"running"'));
		expect(await station.paddock.abort({ id })).toEqual([id]);
		const end = await until(id, (event) => event.type === "rollout-end");
		expect(end).toMatchObject({ outcome: "aborted", reward: null, failure: null });
		const result = await station.paddock.result(id);
		expect(result!.proxy_turns).toHaveLength(1);
		expect(await station.paddock.abort({ id })).toEqual([]);
	});

	test("a permission that is asked for waits for a person, and a refusal reaches the agent", async () => {
		await using model = await openScriptedModel([bash("echo first"), bash("echo second"), say("done")]);
		const id = await start({ task: task(), endpoint: model.endpoint, agent: { permission: "ask" } });
		const first = await until(id, (event) => event.type === "permission-ask");
		await answer(id, first, { reply: "once" });
		const second = await until(id, (event) => event.type === "permission-ask" && event.seq > first.seq);
		await answer(id, second, { reply: "reject", message: "not that one" });
		await until(id, (event) => event.type === "rollout-end");
		const outputs = toolOutputs((await station.paddock.result(id))!.proxy_turns.at(-1));
		expect(outputs[0]).toBe("first\n");
		expect(outputs[1]).toContain("not that one");
	});

	test("a question waits for an answer", async () => {
		const question = {
			question: "Which colour?",
			header: "Colour",
			options: [{ label: "red", description: "" }],
		};
		const asks = { calls: [{ tool: "question", args: { questions: [question] } }] };
		await using model = await openScriptedModel([asks, say("done")]);
		const id = await start({ task: task(), endpoint: model.endpoint, agent: { permission: "ask" } });
		const ask = await until(id, (event) => event.type === "question-ask");
		if (ask.type !== "question-ask") throw new Error("unreachable");
		await station.paddock.command(id, {
			type: "question",
			requestId: ask.requestId,
			answers: [["red"]],
			by: "test",
		});
		await until(id, (event) => event.type === "rollout-end");
		expect(toolOutputs((await station.paddock.result(id))!.proxy_turns.at(-1))[0]).toContain("red");
	});

	test("a message sent to a working agent reaches the model", async () => {
		await using model = await openScriptedModel([bash("sleep 3"), say("one"), say("two")]);
		const id = await start({ task: task(), endpoint: model.endpoint });
		await until(id, (event) => event.type === "agent-event" && JSON.stringify(event).includes('"running"'));
		await station.paddock.command(id, { type: "send", text: "Also think of the tests.", by: "test" });
		await until(id, (event) => event.type === "rollout-end");
		const result = await station.paddock.result(id);
		expect(JSON.stringify(result!.proxy_turns.at(-1)!.request.messages)).toContain(
			"Also think of the tests.",
		);
		expect(await events(id)).toContainEqual(expect.objectContaining({ type: "message-sent" }));
	});

	test("what the agent runs finds no password of the agent's server, and cannot approve itself", async () => {
		const look = `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -ao 'OPENCODE_SERVER_PASSWOR[D]=[[:print:]]*' | sort -u
			curl -s -o /dev/null -w '%{http_code}' -u opencode: http://127.0.0.1:4096/permission`;
		await using model = await openScriptedModel([bash(look), say("done")]);
		const id = await start({ task: task(), endpoint: model.endpoint });
		await until(id, (event) => event.type === "rollout-end");
		const [output] = toolOutputs((await station.paddock.result(id))!.proxy_turns.at(-1));
		expect(output!.trim().split("\n").at(-1)).toBe("401");
		expect(output).not.toMatch(/OPENCODE_SERVER_PASSWORD=./);
	});

	test("nothing that the agent's server starts by itself has its password or its key", async () => {
		// A search runs a program of its own, beside a look-out that reads every environment it can.
		const lookout = `cat > /tmp/look.sh <<'END'
while :; do cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -aE '^(OPENCODE_|RIPGREP|PATH=)' >> /tmp/seen; done
END
setsid nohup bash /tmp/look.sh > /dev/null 2>&1 & sleep 0.3`;
		const search = (pattern: string): PolicyStep => ({
			calls: [{ tool: "grep", args: { pattern, path: "/usr/lib" } }],
		});
		const told =
			"sort -u /tmp/seen | cut -c 1-400; curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:4096/session";
		const steps = [bash(lookout), search("zzqqxx_nothing"), search("zzqqxx_more"), bash(told), say("done")];
		await using model = await openScriptedModel(steps);
		const id = await start({ task: task(), endpoint: model.endpoint });
		await until(id, (event) => event.type === "rollout-end");
		const output = toolOutputs((await station.paddock.result(id))!.proxy_turns.at(-1)).at(-1)!;
		// It did look into the others' environments.
		expect(output).toContain("OPENCODE_DISABLE_AUTOUPDATE=");
		expect(output).not.toMatch(/OPENCODE_SERVER_PASSWORD=.|OPENCODE_CONFIG_CONTENT=.|apiKey/);
		expect(output.trim().endsWith("401")).toBe(true);
	});

	test("what the agent runs inherits no settings of the agent's own runtime", async () => {
		await using model = await openScriptedModel([bash("env | grep -c '^BUN_' || true"), say("done")]);
		const id = await start({ task: task(), endpoint: model.endpoint });
		await until(id, (event) => event.type === "rollout-end");
		const [output] = toolOutputs((await station.paddock.result(id))!.proxy_turns.at(-1));
		expect(output!.trim()).toBe("0");
	});

	test("rules decide without a person, the strictest counts, and each decision says who made it", async () => {
		const rules = [
			{ tool: "bash", pattern: "*", action: "allow" as const },
			{ tool: "bash", pattern: "rm *", action: "deny" as const, message: "nothing is removed here" },
		];
		await using model = await openScriptedModel([bash("echo first"), bash("rm first"), say("done")]);
		const agent = { permission: "ask" as const, permissionRules: rules };
		const id = await start({ task: task(), endpoint: model.endpoint, agent });
		await until(id, (event) => event.type === "rollout-end");
		const ends = (await events(id)).filter((event) => event.type === "permission-end");
		expect(ends).toMatchObject([
			{ reply: "once", by: "rule" },
			{ reply: "reject", by: "rule", message: "nothing is removed here" },
		]);
		const outputs = toolOutputs((await station.paddock.result(id))!.proxy_turns.at(-1));
		expect(outputs[1]).toContain("nothing is removed here");
	});

	test("where everything is denied the agent is told so, each time, and goes on to its end", async () => {
		await using model = await openScriptedModel([bash("echo first"), bash("touch made"), say("done")]);
		const id = await start({
			task: task({ verify: ["test ! -e made"] }),
			endpoint: model.endpoint,
			agent: { permission: "deny" },
		});
		expect(await until(id, (event) => event.type === "rollout-end")).toMatchObject({
			outcome: "completed",
			reward: 1,
		});
		const ends = (await events(id)).filter((event) => event.type === "permission-end");
		const denial = { reply: "reject", by: "policy" };
		expect(ends).toMatchObject([denial, denial]);
		for (const output of toolOutputs((await station.paddock.result(id))!.proxy_turns.at(-1)))
			expect(output).toContain("This is not permitted here.");
		expect((await station.paddock.rollout(id))!.summary!.interventions ?? []).toEqual([]);
	});

	test("a person interrupts and says how to go on: it goes on from there, and the certificate tells", async () => {
		await using model = await openScriptedModel([
			bash("sleep 300"),
			say("As you like."),
			say("As you like."),
		]);
		const id = await start({ task: task(), endpoint: model.endpoint });
		await until(id, (event) => event.type === "agent-event" && JSON.stringify(event).includes('"running"'));
		await station.paddock.command(id, { type: "interrupt", text: "Leave that.", by: "anna" });
		const end = await until(id, (event) => event.type === "rollout-end");
		expect(end).toMatchObject({ outcome: "completed" });
		const all = await events(id);
		expect(all.filter((event) => event.type === "interrupted")).toMatchObject([{ by: "anna" }]);
		expect(all.filter((event) => event.type === "message-sent")).toMatchObject([{ text: "Leave that." }]);
		const rollout = await station.paddock.rollout(id);
		expect(rollout!.summary!.interventions).toEqual([
			{ kind: "interrupt", by: "anna", call: 1 },
			{ kind: "message", by: "anna", call: expect.any(Number) },
		]);
		const certificate = await station.paddock.certificate(id);
		expect(certificate).toMatchObject({ interventions: { count: 2, firstCall: 1 } });
		expect(certificate!.notes.join()).toContain("people intervened 2 times");
	});

	test("the transcript is there afterwards, and the events are gapless", async () => {
		await using model = await openScriptedModel([bash("echo hello"), say("done")]);
		const id = await start({ task: task(), endpoint: model.endpoint });
		await until(id, (event) => event.type === "rollout-end");
		const { messages } = (await station.paddock.messages(id))!;
		expect(messages.map((message) => message.info.role)).toEqual(["user", "assistant", "assistant"]);
		const all = await events(id);
		expect(all.map((event) => event.seq)).toEqual(all.map((_, index) => index + 1));
		expect(all.at(-1)!.type).toBe("rollout-end");
	});
});

async function start(request: TestRequest): Promise<string> {
	const { rollouts } = await station.paddock.submit(RolloutRequest.parse(request));
	return rollouts[0]!.id;
}

async function until(id: string, found: (event: RolloutEvent) => boolean): Promise<RolloutEvent> {
	for await (const event of station.paddock.follow(id)) if (found(event)) return event;
	throw new Error(`${id} ended without it`);
}

async function events(id: string): Promise<RolloutEvent[]> {
	return await Array.fromAsync(station.paddock.follow(id));
}

async function answer(id: string, ask: RolloutEvent, reply: { reply: "once" | "reject"; message?: string }) {
	if (ask.type !== "permission-ask") throw new Error("not a permission request");
	await station.paddock.command(id, { type: "permission", requestId: ask.requestId, by: "test", ...reply });
}
