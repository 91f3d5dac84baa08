import { isOrphaned, LABELS, machineId } from "../lease/owner-labels.ts";
import { removeContainer } from "./container.ts";
import { type Engine, engineFailed } from "./engine.ts";

export const containerName = (boxId: string) => `paddock-${boxId}`;

/** Removes the containers whose owner is dead; says how many. */
export async function reapContainers(engine: Engine): Promise<number> {
	const filters = { label: [`${LABELS.machine}=${await machineId()}`] };
	const containers = await engine.docker.listContainers({ all: true, filters }).catch((error) => {
		throw engineFailed(error, engine.socket);
	});
	let reaped = 0;
	for (const { Labels, Id } of containers) {
		if (!(await isOrphaned(Labels))) continue;
		await removeContainer(engine, Id);
		reaped += 1;
	}
	return reaped;
}
