import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Agent } from "undici";
import { DIALECTS } from "../../src/gateway/engines/dialect.ts";
import { Renderer } from "../../src/gateway/stitch/renderer.ts";
import { Stitcher } from "../../src/gateway/stitch/stitcher.ts";
import { ROOT } from "../node24.mjs";

/** Stands at the very end of what the model says, and nowhere else. */
const MARK = "§";
const TOOLS = [
	{
		type: "function",
		function: { name: "look", description: "Looks.", parameters: { type: "object", properties: {} } },
	},
];
const SYSTEM = { role: "system", content: "You code." };
const ASK = { role: "user", content: "Solve it." };
const GO = { role: "user", content: "Go on." };
const call = (id, word) => ({
	id,
	type: "function",
	function: { name: "look", arguments: JSON.stringify({ at: word }) },
});
const calls = (content, ...ids) => ({
	role: "assistant",
	content,
	tool_calls: ids.map((id, index) => call(id, index === ids.length - 1 ? MARK : "here")),
});
const said = (content) => ({ role: "assistant", content: `${content}${MARK}` });
const result = (id) => ({ role: "tool", tool_call_id: id, name: "look", content: "ok" });
const EARLIER = [
	ASK,
	{ role: "assistant", content: "", tool_calls: [call("call00001", "x")] },
	result("call00001"),
];

/** A history, what the model said, and what the agent adds. */
const CASES = [
	{ before: [ASK], reply: said("Well."), rest: [GO] },
	{ before: [SYSTEM, ASK], reply: said("Well."), rest: [GO] },
	{ before: [SYSTEM, ASK], reply: said("Well."), rest: [GO], isCut: true },
	{ before: [SYSTEM, ASK], reply: calls("", "call00002"), rest: [result("call00002")] },
	{ before: [SYSTEM, ASK], reply: calls("I look.", "call00002"), rest: [result("call00002")] },
	{
		before: [SYSTEM, ASK],
		reply: calls("", "call00002", "call00003"),
		rest: [result("call00002"), result("call00003")],
	},
	{ before: [SYSTEM, ASK], reply: calls("", "call00002"), rest: [result("call00002"), GO] },
	{ before: [SYSTEM, ...EARLIER], reply: calls("Again.", "call00002"), rest: [result("call00002")] },
	{ before: [SYSTEM, ...EARLIER], reply: said("Well."), rest: [GO] },
	{
		before: [SYSTEM, ASK],
		reply: calls("", "call00002"),
		rest: [result("call00002"), { role: "assistant", content: "This was the last step." }],
	},
];

/**
 * The gateway's own stitching over the chat templates that TRL ships: whatever it adds behind a reply must be what the template itself
 * puts there; where it cannot tell, it must say so.
 */
export async function measureTemplates({ python, say }) {
	await using templates = await openTemplates(python);
	const counts = { right: 0, doubt: 0, refused: 0, wrong: 0 };
	const wrong = [];
	const whys = {};
	for (const name of templates.names)
		for (const [index, one] of CASES.entries()) {
			const { verdict, why } = await judge(templates, name, one);
			counts[verdict] += 1;
			if (verdict === "wrong") wrong.push(`${name} ${index}`);
			if (verdict === "doubt") whys[why] = (whys[why] ?? 0) + 1;
		}
	say(
		`the boundary rule over the ${templates.names.length} chat templates of TRL, ${CASES.length} conversations each`,
		`${counts.right} right, ${counts.doubt} doubt, ${counts.refused} refused by the template itself, **${counts.wrong} wrong**${wrong.length > 0 ? ` (${wrong.join(", ")})` : ""}; doubts: ${Object.entries(
			whys,
		)
			.map(([why, count]) => `${why} ${count}`)
			.join(", ")}`,
	);
}

async function judge({ origin, dispatcher }, model, { before, reply, rest, isCut = false }) {
	const endpoint = { name: "templates", baseUrl: `${origin}/v1`, model, dialect: "vllm" };
	const renderer = new Renderer(endpoint, DIALECTS.vllm, dispatcher);
	const render = (messages) => renderer.render({ messages, tools: TOOLS }).catch(() => null);
	const first = await render(before);
	// Some templates show no calls: there the turn ends behind its text.
	const marked = { ...reply, content: `${reply.content.replace(MARK, "")}${MARK}` };
	const truth = await render([...before, marked, ...rest]);
	if (first === null || truth === null) return { verdict: "refused" };
	const closers = await renderer.closers().catch(() => new Set());
	const spoken = endOf(truth, closers);
	const stitcher = new Stitcher();
	const body = { messages: before, tools: TOOLS };
	stitcher.delivered(
		"session",
		{
			index: 0,
			body,
			reply,
			finishReason: isCut ? "length" : reply.tool_calls ? "tool_calls" : "stop",
			promptIds: first,
			// Only its last token counts here.
			completionIds: [
				1_000 + MARK.codePointAt(0),
				...(isCut ? [] : [spoken?.closer ?? [...closers][0] ?? 0]),
			],
			parent: null,
		},
		renderer,
	);
	const next = { messages: [...before, reply, ...rest], tools: TOOLS };
	const stitched = await stitcher.prepare("session", next, renderer, false);
	if (typeof stitched === "string") return { verdict: "doubt", why: stitched };
	const added = stitched.ids.slice(-stitched.added);
	const expected = spoken === null ? null : truth.slice(isCut ? spoken.at : spoken.at + 1);
	return { verdict: JSON.stringify(added) === JSON.stringify(expected) ? "right" : "wrong" };
}

/** Where the template closes the turn in which the mark stands; null where it never does. */
function endOf(ids, closers) {
	const mark = ids.lastIndexOf(1_000 + MARK.codePointAt(0));
	const at = ids.findIndex((id, index) => index > mark && closers.has(id));
	return mark < 0 || at < 0 ? null : { at, closer: ids[at] };
}

async function openTemplates(python) {
	const child = spawn(python, [join(ROOT, "scripts/proof/templates.py")], {
		stdio: ["ignore", "pipe", "inherit"],
	});
	const [line] = await once(createInterface({ input: child.stdout }), "line");
	const dispatcher = new Agent();
	return {
		...JSON.parse(line),
		dispatcher,
		async [Symbol.asyncDispose]() {
			await dispatcher.destroy();
			child.kill();
			await once(child, "exit");
		},
	};
}
