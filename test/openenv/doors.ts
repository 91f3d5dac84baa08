import type { Paddock } from "../../src/paddock.ts";
import { type Doors, type DoorsOptions, openDoors } from "../../src/server/doors.ts";
import { serve } from "../../src/server/serve.ts";

export interface OpenDoors extends AsyncDisposable, Pick<Doors, "mcp" | "openEnv"> {
	url: string;
}

/** The real server with all doors, on a free port of loopback. */
export async function serveDoors(paddock: Paddock, options: DoorsOptions = {}): Promise<OpenDoors> {
	const doors = openDoors(paddock, options);
	const serving = await serve(paddock, {
		host: "127.0.0.1",
		port: 0,
		maxBodyBytes: 64 * 1024 * 1024,
		graceMs: 0,
		extraRoutes: doors.mount,
		onUpgrade: doors.onUpgrade,
	});
	return {
		url: serving.url,
		mcp: doors.mcp,
		openEnv: doors.openEnv,
		async [Symbol.asyncDispose]() {
			await doors[Symbol.asyncDispose]();
			await serving[Symbol.asyncDispose]();
		},
	};
}
