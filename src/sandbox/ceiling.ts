import { RolloutError } from "../errors.ts";
import type { BoxSpec } from "../model/task.ts";
import type { Backend } from "./sandbox.ts";

/** The most that any box may have, whatever its task asks for. */
export type BoxCeiling = Pick<BoxSpec, "memoryMb" | "diskMb" | "cpus" | "pids">;

/** The same backend, which opens no box above the operator's ceiling. */
export function withCeiling(backend: Backend, ceiling: BoxCeiling): Backend {
	return {
		name: backend.name,
		available: () => backend.available(),
		async open(options) {
			refuseAbove(ceiling, options.spec);
			return await backend.open(options);
		},
		reap: () => backend.reap(),
		[Symbol.asyncDispose]: () => backend[Symbol.asyncDispose](),
	};
}

function refuseAbove(ceiling: BoxCeiling, spec: BoxSpec): void {
	for (const name of ["memoryMb", "diskMb", "cpus", "pids"] as const) {
		if (spec[name] <= ceiling[name]) continue;
		const message = `the task asks for a box with ${name} ${spec[name]}; the most that is given here is ${ceiling[name]}`;
		throw new RolloutError("task", "box_too_large", message);
	}
}
