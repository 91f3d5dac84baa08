import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../errors.ts";
import { type DriveTurnOptions, driveTurn, type TurnReply, type TurnTarget } from "./drive-turn.ts";

const SINK_MS = 5_000;

/** The same for whoever would rather be called. A sink that throws, or takes too long, misses replies; the turn goes on. */
export async function driveTurnInto(
	sink: (reply: TurnReply) => unknown,
	target: TurnTarget,
	text: string,
	options: DriveTurnOptions & { sinkMs?: number } = {},
): Promise<void> {
	const { log = () => {}, sinkMs = SINK_MS } = options;
	for await (const reply of driveTurn(target, text, options)) {
		try {
			const stop = new AbortController();
			const late = delay(sinkMs, "late" as const, { signal: stop.signal }).catch(() => null);
			const first = await Promise.race([Promise.resolve(sink(reply)).then(() => null), late]);
			stop.abort();
			if (first === "late") log(`the sink did not take a ${reply.kind} in time`, reply.traceId);
		} catch (error) {
			log(`the sink failed: ${messageOf(error)}`, reply.traceId);
		}
	}
}
