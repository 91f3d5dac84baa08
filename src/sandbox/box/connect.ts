import type { Duplex } from "node:stream";
import type { Control } from "./control.ts";
import { lostMidway, toBoxError } from "./exec.ts";
import { readFrame } from "./frames.ts";
import { FROM_BOX } from "./wire.ts";

/** A byte stream to a loopback port inside; with `command`, only while that command lives. */
export async function connect(control: Control, port: number, command?: string): Promise<Duplex> {
	const { connection } = await control.open({ op: "connect", port, command });
	await using _patience = control.expectAnswer();
	const answer = await readFrame(connection);
	if (answer?.type === FROM_BOX.result) return connection;
	connection.destroy();
	throw answer === null ? lostMidway(control) : toBoxError(answer.payload);
}
