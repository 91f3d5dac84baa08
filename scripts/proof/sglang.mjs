import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openGateway } from "../../src/gateway/agent-side/server.ts";
import { Sampling } from "../../src/model/request.ts";
import { Budget } from "../../src/model/task.ts";
import { openTemplateEngine } from "../../test/fakes/template-engine.ts";
import { toLines } from "./paddock.mjs";

/** The package without what it depends on, save what its request classes import. */
const PACKAGES = ["sglang==0.5.23", "orjson", "ipython", "traitlets"];
const TOOLS = [
	{ type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } },
];
const ASK = { role: "user", content: "Look." };

/** Do SGLang's own request classes take what the gateway sends it? Nothing of it is run. */
export async function measureSglang({ python, work, runPython, say }) {
	const folder = join(work, "sglang");
	if (!existsSync(join(folder, "sglang")))
		execFileSync(python, ["-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, ...PACKAGES], {
			stdio: ["ignore", "inherit", "inherit"],
		});
	const requests = join(work, "sglang-requests.jsonl");
	writeFileSync(requests, toLines(await sentRequests()));
	const found = await runPython("sglang.py", folder, requests);
	say(
		`request classes of sglang ${found.version} (no engine was run)`,
		`${found.accepted} requests accepted, ${found.as_ids} of them with a prompt as ids and ${found.renders} for renders; fields that the classes do not know: ${[...new Set(found.unknown)].join(", ") || "none"}`,
	);
}

/** Two turns through the gateway to an engine that speaks as SGLang does. */
async function sentRequests() {
	await using engine = await openTemplateEngine();
	engine.dialect = "sglang";
	const id = "call_1";
	const called = { id, type: "function", function: { name: "look", arguments: "{}" } };
	const message = { role: "assistant", content: "I look.\n", tool_calls: [called] };
	engine.next = [
		{ raw: 'I look.\n<|call|>{"name":  "look", "arguments": {}}<|im_end|>', message },
		{ raw: "Done.<|im_end|>", message: { role: "assistant", content: "Done." } },
	];
	await using gateway = await openGateway();
	const url = await gateway.listen("127.0.0.1", 0);
	await using tap = gateway.openTap({
		rolloutId: "ro_1",
		attempt: 1,
		boxId: "box",
		overTcp: true,
		endpoint: {
			name: "sglang",
			baseUrl: engine.baseUrl,
			model: "m",
			dialect: "sglang",
			disableThinking: false,
		},
		sampling: Sampling.parse({}),
		budget: Budget.parse({}),
		sink: { write: async () => {} },
	});
	const ask = async (messages) => {
		const response = await fetch(`${url}/chat/completions`, {
			method: "POST",
			headers: {
				authorization: `Bearer ${tap.key}`,
				"content-type": "application/json",
				"x-session-id": "ses_1",
			},
			body: JSON.stringify({ model: "m", messages, tools: TOOLS, stream: true }),
		});
		if (!response.ok) throw new Error(await response.text());
		await response.text();
	};
	await ask([ASK]);
	const answered = { role: "tool", tool_call_id: id, content: "nothing" };
	await ask([ASK, { ...message, content: "I look." }, answered]);
	return [
		...engine.requests.map((body) => ({ path: "/v1/chat/completions", body })),
		...engine.renders.map((body) => ({ path: "/v1/tokenize", body })),
	];
}
