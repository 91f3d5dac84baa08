import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { removeContainer } from "./docker-container.ts";
import { type Engine, engineFailed } from "./docker-engine.ts";
import { describeSelf, isAlive, Owner } from "./lease.ts";

const BOX = "paddock.box";
const OWNER = "paddock.owner";
/** Several machines may share an engine; each judges only its own. */
const MACHINE = "paddock.machine";

export const containerName = (boxId: string) => `paddock-${boxId}`;

export async function labelsOf(boxId: string): Promise<Record<string, string>> {
	return { [BOX]: boxId, [OWNER]: JSON.stringify(await describeSelf()), [MACHINE]: await machineId() };
}

/** Removes the containers whose owner is dead; says how many. */
export async function reapContainers(engine: Engine): Promise<number> {
	const filters = { label: [`${MACHINE}=${await machineId()}`] };
	const containers = await engine.docker.listContainers({ all: true, filters }).catch((error) => {
		throw engineFailed(error, engine.socket);
	});
	let reaped = 0;
	for (const { Labels, Id } of containers) {
		const owner = parseOwner(Labels[OWNER]);
		if (owner === null || (await isAlive(owner))) continue;
		await removeContainer(engine, Id);
		reaped += 1;
	}
	return reaped;
}

function parseOwner(text: string | undefined): Owner | null {
	try {
		return Owner.parse(JSON.parse(text ?? ""));
	} catch {
		return null;
	}
}

async function machineId(): Promise<string> {
	const id = await readFile("/etc/machine-id", "utf8").catch(() => "");
	return id.trim() || hostname();
}
