import type { AgentMessage } from "../agent.ts";
import type { ServeClient } from "./client.ts";
import type { SessionMirror } from "./mirror.ts";

/** How things are, as the server tells it. */
export interface ServerState {
	/** The root and all its descendants. */
	owned: string[];
	permissions: Record<string, unknown>[];
	questions: Record<string, unknown>[];
	statuses: Record<string, unknown>;
	/** The end of the root's messages, back to one that is known. */
	history: AgentMessage[];
}

const MAX_SESSIONS = 2_000;
const WINDOW = 200;

/** Asks come before statuses: in the other order a fresh ask would look like one whose turn is over. */
export async function readState(
	client: ServeClient,
	root: string,
	mirror: SessionMirror,
): Promise<ServerState> {
	const [owned, permissions, questions] = await Promise.all([
		family(client, root),
		client.pendingAsks("permission"),
		client.pendingAsks("question"),
	]);
	const [statuses, history] = await Promise.all([client.statuses(), readHistory(client, root, mirror)]);
	return { owned, permissions, questions, statuses, history };
}

async function family(client: ServeClient, root: string): Promise<string[]> {
	const owned = new Set([root]);
	let generation = [root];
	while (generation.length > 0 && owned.size < MAX_SESSIONS) {
		const children = (await Promise.all(generation.map((id) => client.children(id)))).flat();
		generation = children.filter((id) => !owned.has(id));
		for (const id of generation) owned.add(id);
	}
	return [...owned];
}

/** A window is enough unless more was missed than it holds. */
async function readHistory(
	client: ServeClient,
	root: string,
	mirror: SessionMirror,
): Promise<AgentMessage[]> {
	const recent = await client.messages(root, WINDOW);
	if (recent.length < WINDOW || recent.some(({ info }) => mirror.knows(String(info.id)))) return recent;
	return await client.messages(root);
}
