import { test as base } from "vitest";
import type { Config } from "../../src/config.ts";
import { type OpenDoors, serveDoors } from "./doors.ts";
import { openPlayingPaddock, type PlayingPaddock } from "./playing-paddock.ts";
import { RawClient } from "./raw-client.ts";

/** The server with a played Paddock behind it, and one client on /ws. */
export const test = base.extend<{
	options: Partial<Config>;
	paddock: PlayingPaddock;
	doors: OpenDoors;
	client: RawClient;
}>({
	options: {},
	paddock: async ({ options }, use) => {
		await using paddock = await openPlayingPaddock(options);
		await use(paddock);
	},
	doors: async ({ paddock }, use) => {
		await using doors = await serveDoors(paddock);
		await use(doors);
	},
	client: async ({ doors }, use) => {
		await using client = await RawClient.connect(`${doors.url}/ws`);
		await use(client);
	},
});

export const task = { endpoint: "scripted", instruction: "write hello", task_id: "t-1" };
export const hanging = { ...task, instruction: "hang" };

export function callFrame(tool_name: string, value: object) {
	return { type: "step", data: { type: "call_tool", tool_name, arguments: value } };
}
