/**
 * Runs a rollout over MCP with the official client, watches its progress, cancels a second one, and drives a third in
 * short calls. Exits non-zero when anything is not as it says.
 *
 *   node examples/mcp/run.mjs                              starts `paddock mcp` itself; any Node from 20 on
 *   node examples/mcp/run.mjs http://127.0.0.1:8000/mcp    talks to a running `paddock serve`
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const HELLO = {
	endpoint: "scripted",
	task_id: "hello",
	instruction: "Write the word hello into hello.txt",
	solution: ["echo hello > hello.txt"],
	verify: ["grep -q hello hello.txt"],
};
const ENDLESS = { ...HELLO, task_id: "endless", solution: ["sleep 100000"] };

const [address] = process.argv.slice(2);
const client = new Client({ name: "example", version: "1.0.0" });
await client.connect(address ? new StreamableHTTPClientTransport(new URL(address)) : startOurOwn());
try {
	await runWithProgress();
	await cancelMidWay();
	await startPollAbortFinalize();
	console.log("All as it should be.");
} finally {
	await client.close();
}

async function runWithProgress() {
	const reports = [];
	const result = await call("run_rollout", HELLO, {
		onprogress: ({ message }) => {
			if (message !== undefined && message !== reports.at(-1)) console.log(`  ${message}`);
			if (message !== undefined) reports.push(message);
		},
	});
	assert.equal(result.outcome, "completed");
	assert.equal(result.reward, 1);
	assert.ok(
		reports.some((report) => report.includes("model call")),
		"progress tells of model calls",
	);
	console.log(`run_rollout: reward ${result.reward} after ${result.wall_s} s`);
}

async function cancelMidWay() {
	const task = { ...ENDLESS, idempotency_key: crypto.randomUUID() };
	const cancel = new AbortController();
	const cancelled = call("run_rollout", task, {
		signal: cancel.signal,
		onprogress: ({ message }) => {
			if (message?.startsWith("agent") && message.includes("model call")) cancel.abort("seen enough");
		},
	});
	await assert.rejects(cancelled, /seen enough/);
	// A repeat with the same key starts nothing: it says which rollout that was.
	const { rollout_id } = await call("start_rollout", task);
	const result = await call("finalize_rollout", { rollout_id, wait_s: 60 });
	assert.equal(result.outcome, "aborted");
	console.log("run_rollout: cancelled while the agent worked, and aborted");
}

async function startPollAbortFinalize() {
	const { rollout_id } = await call("start_rollout", ENDLESS);
	let cursor = 0;
	for (let seen = []; !seen.includes("call-end"); ) {
		const page = await call("subscribe_events", { rollout_id, cursor, wait_s: 20 });
		assert.equal(page.done, false, "the endless task does not end by itself");
		cursor = page.next_cursor;
		seen = page.events.map((event) => event.type);
	}
	const state = await call("get_state", { rollout_id });
	assert.equal(state.status, "running");
	const { messages } = await call("get_messages", { rollout_id });
	assert.ok(Array.isArray(messages));
	assert.equal((await call("abort_rollout", { rollout_id })).aborted, true);
	const abortedAt = Date.now();
	const result = await call("finalize_rollout", { rollout_id, wait_s: 30 });
	assert.equal(result.outcome, "aborted");
	console.log(`start, poll, abort, finalize: ended ${Date.now() - abortedAt} ms after the abort`);
}

async function call(name, value, options = {}) {
	const result = await client.callTool({ name, arguments: value }, undefined, {
		resetTimeoutOnProgress: true,
		...options,
	});
	assert.ok(!result.isError, JSON.stringify(result.content));
	return result.structuredContent;
}

function startOurOwn() {
	const paddock = fileURLToPath(new URL("../../bin/paddock.mjs", import.meta.url));
	const command = { command: process.execPath, args: [paddock, "mcp"] };
	return new StdioClientTransport({ ...command, env: { ...process.env }, stderr: "inherit" });
}
