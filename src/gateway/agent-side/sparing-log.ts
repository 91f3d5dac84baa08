import type { GatewayLog } from "../log.ts";

/** Boxes that are remembered; beyond it counting begins anew. */
const MAX_BOXES = 10_000;

/** What a box does wrong is logged the first time, and then each time its number has doubled: a box must not set the log's size. */
export class SparingLog {
	readonly #log: GatewayLog;
	readonly #times = new Map<string | null, number>();

	constructor(log: GatewayLog) {
		this.#log = log;
	}

	warn(boxId: string | null, fields: object, message: string): void {
		if (this.#times.size >= MAX_BOXES) this.#times.clear();
		const times = (this.#times.get(boxId) ?? 0) + 1;
		this.#times.set(boxId, times);
		if (Number.isInteger(Math.log2(times))) this.#log.warn({ boxId, ...fields, times }, message);
	}
}
