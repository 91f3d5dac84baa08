import { expect, test } from "vitest";
import { Doubt, tokensBehind } from "../../src/gateway/stitch/boundary.ts";
import { chatMl, type Message, toIds } from "../fakes/template-engine.ts";

const SYSTEM: Message = { role: "system", content: "You code." };
const ASK: Message = { role: "user", content: "Solve it." };

const reply = { last: toIds("<|im_end|>")[0]!, hasEnded: true };
const closers = new Set([reply.last]);
const renders = (template: (messages: Message[]) => string, rest: Message[]) => {
	const with_ = (head: Message[], word: string, after: Message[]) =>
		toIds(template([...head, { role: "assistant", content: word }, ...after]));
	const short = [{ role: "user", content: "x" }];
	return {
		one: with_(short, "xq", rest),
		other: with_(short, "zk", rest),
		changed: with_(short, "xq", [{ ...rest[0]!, content: "qx" }, ...rest.slice(1)]),
		whole: with_([SYSTEM, ASK], "xq", rest),
	};
};
const go = [{ role: "user", content: "go" }];

test("the boundary is right where a template renders turn by turn", () => {
	const added = tokensBehind(
		renders((messages) => chatMl(messages, []), go),
		reply,
		closers,
	);
	expect(added).toEqual(toIds("\n<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n"));
});

test("a stop that is also the next opener is counted once", () => {
	// GLM: a turn ends where the next role begins.
	const glm = (messages: Message[]) =>
		`${messages.map(({ role, content }) => `<|${role}|>${String(content)}`).join("")}<|assistant|>`;
	const ended = { last: toIds("<|user|>")[0]!, hasEnded: true };
	expect(tokensBehind(renders(glm, go), ended, new Set([ended.last]))).toEqual(toIds("go<|assistant|>"));
});

test("the boundary doubts a template that shows neither the reply nor the new message, or looks further back", () => {
	const hides = () => "<|im_start|>always the same<|im_end|>";
	expect(() => tokensBehind(renders(hides, go), reply, closers)).toThrow(Doubt);
	const counts = (messages: Message[]) => `${chatMl(messages, [])}${messages.length}`;
	expect(() => tokensBehind(renders(counts, go), reply, closers)).toThrow(/further back/);
	const endless = (messages: Message[]) => messages.map(({ content }) => String(content)).join(" ");
	expect(() => tokensBehind(renders(endless, go), reply, closers)).toThrow(Doubt);
});

/** As Qwen3 does it: thoughts stay behind the last words of a person alone. */
function forgetful(messages: Message[]): string {
	const lastUser = messages.findLastIndex(({ role }) => role === "user");
	const turns = messages.map(({ role, content, reasoning }, index) => {
		const thought =
			role === "assistant" && index > lastUser ? `<|think|>${String(reasoning ?? "")}<|think_end|>` : "";
		return `<|im_start|>${role}\n${thought}${String(content)}<|im_end|>\n`;
	});
	return `${turns.join("")}<|im_start|>assistant\n`;
}

/** As Gemma 4 does it: a tool's answer stands inside the model's own turn, which ends behind it or goes on. */
function nested(messages: Message[]): string {
	const turns = messages.map(({ role, content }, index) => {
		if (role === "tool") return `<|response|>${String(content)}<|response_end|>`;
		const isOpen = role === "assistant" && messages[index + 1]?.role === "tool";
		return `<|turn|>${role}\n${String(content)}${isOpen ? "" : "<|turn_end|>\n"}`;
	});
	return `${turns.join("")}${messages.at(-1)!.role === "tool" ? "" : "<|turn|>assistant\n"}`;
}

/** As Llama 3 does it for tools without a role of their own: a template that leaves them out. */
function deaf(messages: Message[]): string {
	return chatMl(
		messages.filter(({ role }) => role !== "tool"),
		[],
	);
}

test("a template that strips thoughts from earlier turns is no obstacle", () => {
	const added = tokensBehind(renders(forgetful, go), reply, closers);
	expect(added).toEqual(toIds("\n<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n"));
});

test("an answer inside the model's own turn has no end of turn before it: doubt", () => {
	const last = toIds("<|turn_end|>")[0]!;
	const answer = [{ role: "tool", tool_call_id: "c1", content: "ok" }];
	expect(() => tokensBehind(renders(nested, answer), { last, hasEnded: true }, new Set([last]))).toThrow(
		Doubt,
	);
	// A person's words stand behind the turn, as everywhere.
	expect(tokensBehind(renders(nested, go), { last, hasEnded: true }, new Set([last]))).toEqual(
		toIds("\n<|turn|>user\ngo<|turn_end|>\n<|turn|>assistant\n"),
	);
});

test("a template that leaves a tool's answer out is doubted", () => {
	const answer = [{ role: "tool", tool_call_id: "c1", content: "ok" }];
	expect(() => tokensBehind(renders(deaf, answer), reply, closers)).toThrow(/does not show the new message/);
});
