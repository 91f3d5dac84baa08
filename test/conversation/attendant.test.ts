import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { openServeConversation } from "../../src/agent/serve/attach.ts";
import { Attendant, type AttendantOptions, type AttendantPolicy } from "../../src/conversation/attendant.ts";
import type { EventBody } from "../../src/model/event.ts";
import { openFakeApi } from "../fakes/opencode-api.ts";

/** Nobody waits for it. */
const NEVER_MS = 1_000_000;

test("the policy deny refuses with a reason that the model reads, and questions are declined", async () => {
	await using stage = await openStage({ permission: "deny" });
	stage.ask("per_1", "ls");
	expect(await stage.ended("per_1")).toMatchObject({ type: "permission-end", reply: "reject", by: "policy" });
	expect(stage.replies()).toEqual([
		{ reply: "reject", message: expect.stringContaining("not permitted here") },
	]);
	stage.question("que_1");
	expect(await stage.ended("que_1")).toMatchObject({ type: "question-end", by: "policy" });
	expect(stage.api.posts("/question/que_1/reject")).toHaveLength(1);
});

test("a rule allows what the policy would deny, and asks a person where it says so", async () => {
	const rules = [
		{ tool: "bash", pattern: "git *", action: "allow" },
		{ tool: "bash", pattern: "make *", action: "ask" },
	] as const;
	await using stage = await openStage({ permission: "deny", rules });
	stage.ask("per_1", "git status");
	expect(await stage.ended("per_1")).toMatchObject({ reply: "once", by: "rule" });
	stage.ask("per_2", "make all");
	await stage.asked("per_2");
	await stage.attendant.obey({ type: "permission", requestId: "per_2", reply: "once", by: "anna" });
	expect(await stage.ended("per_2")).toMatchObject({ reply: "once", by: "anna" });
	stage.ask("per_3", "rm -rf /");
	expect(await stage.ended("per_3")).toMatchObject({ reply: "reject", by: "policy" });
});

test.for(["allow", "deny"] as const)(
	"nobody decides in time: %s, if that is what was chosen",
	async (otherwise) => {
		await using stage = await openStage({ permission: "ask", deadlineMs: 1, otherwise });
		stage.ask("per_1", "ls");
		const reply = otherwise === "allow" ? "once" : "reject";
		expect(await stage.ended("per_1")).toMatchObject({ reply, by: "deadline" });
		const message = { message: expect.stringContaining("Nobody decided in time") };
		expect(stage.replies()).toEqual([{ reply, ...(otherwise === "deny" ? message : {}) }]);
		stage.question("que_1");
		expect(await stage.ended("que_1")).toMatchObject({ by: "deadline" });
		await stage.attendant.obey({ type: "permission", requestId: "per_1", reply: "once", by: "anna" });
		expect(stage.told.at(-1)).toMatchObject({ type: "note", text: expect.stringContaining("per_1") });
	},
);

test("always settles what waits alike, is on the record, and holds for what comes and for who takes over", async () => {
	await using stage = await openStage({ permission: "ask" });
	for (const [id, command] of Object.entries({ per_1: "npm test", per_2: "npm run x", per_3: "rm x" }))
		stage.ask(id, command, ["npm *"]);
	await Promise.all(["per_1", "per_2", "per_3"].map(stage.asked));
	await stage.attendant.obey({ type: "permission", requestId: "per_1", reply: "always", by: "anna" });
	expect(await stage.ended("per_1")).toMatchObject({ reply: "once", by: "anna" });
	expect(await stage.ended("per_2")).toMatchObject({ reply: "once", by: "rule" });
	stage.ask("per_4", "npm ci");
	expect(await stage.ended("per_4")).toMatchObject({ reply: "once", by: "rule" });
	expect(stage.told.filter(({ type }) => type === "permission-always")).toMatchObject([
		{ requestId: "per_1", by: "anna", permission: "bash", patterns: ["npm *"] },
	]);
	expect(stage.told.some((event) => event.type === "permission-end" && event.requestId === "per_3")).toBe(
		false,
	);

	const always = [{ tool: "bash", pattern: "npm *", action: "allow" as const }];
	await using later = await openStage({ permission: "ask" }, { always });
	later.ask("per_5", "npm ci");
	expect(await later.ended("per_5")).toMatchObject({ by: "rule" });
});

async function openStage(policy: Partial<AttendantPolicy>, options: AttendantOptions = {}) {
	const api = await openFakeApi();
	const talk = await openServeConversation({ url: api.url, password: "p", directory: "/real" });
	const told: EventBody[] = [];
	const attendant = new Attendant(
		{ permission: "ask", rules: [], deadlineMs: NEVER_MS, otherwise: "deny", ...policy },
		(event) => told.push(event),
		options,
	);
	const attending = attendant.attend(talk);
	api.state.statuses = { ses_root: { type: "busy" } };
	api.tell("session.status", { sessionID: "ses_root", status: { type: "busy" } });
	const found = async (requestId: string, ...types: EventBody["type"][]): Promise<EventBody> => {
		for (;;) {
			const event = told.find(
				(one) => "requestId" in one && one.requestId === requestId && types.includes(one.type),
			);
			if (event !== undefined) return event;
			await delay(2);
		}
	};
	return {
		...{ api, attendant, told },
		ask: (id: string, command: string, always: string[] = []) =>
			api.tell("permission.asked", {
				...{ id, sessionID: "ses_root", permission: "bash", patterns: [command], always },
				metadata: { command },
			}),
		question: (id: string) => api.tell("question.asked", { id, sessionID: "ses_root", questions: [] }),
		asked: (id: string) => found(id, "permission-ask", "question-ask"),
		ended: (id: string) => found(id, "permission-end", "question-end"),
		replies: () => api.posts("/permission/").map(({ body }) => body),
		async [Symbol.asyncDispose]() {
			attending[Symbol.dispose]();
			await talk.finish();
			await api[Symbol.asyncDispose]();
		},
	};
}
