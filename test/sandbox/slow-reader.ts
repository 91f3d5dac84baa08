import { expect } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import type { Backend } from "../../src/sandbox/sandbox.ts";

const ANSWER_BYTES = 20_000_000;

/** The gateway answers, hangs up at once, and the box takes its time: nothing may be lost on the way. */
export async function expectSlowReaderLosesNothing(backend: Backend): Promise<void> {
	await using box = await backend.open({
		spec: BoxSpec.parse({}),
		onGateway: (connection) => {
			connection.once("data", () => connection.end(Buffer.alloc(ANSWER_BYTES), () => connection.destroy()));
		},
	});
	// Slower than the line by far, then all at once: every buffer in between has been full.
	const read =
		"exec 3<>/dev/tcp/127.0.0.1/7000; echo hi >&3; { dd bs=1000 count=1 <&3; sleep 1; cat <&3; } 2>/dev/null | wc -c";
	expect(Number((await box.exec(read, { timeoutMs: 50_000 })).stdout)).toBe(ANSWER_BYTES);
}
