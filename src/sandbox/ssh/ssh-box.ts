import { dirname } from "node:path";
import type { SshConnection } from "../../host/ssh/connection.ts";
import { quote } from "../../host/ssh/quote.ts";
import type { BoxSpec } from "../../model/task.ts";
import { BOX_RUN, type Doors, initConfig, type Launched, ROOM, socketsIn } from "../box/launch.ts";
import { bwrapArguments, wrapperArguments } from "../local/bwrap.ts";
import { SILENCE_MS, Tunnel } from "../tunnel/tunnel.ts";
import type { BridgeOrder } from "../tunnel/wire.ts";
import type { Remote } from "./remote.ts";

export interface BoxPlan {
	boxId: string;
	/** The box's own folder over there. */
	folder: string;
	remote: Remote;
	spec: BoxSpec;
	gateway: boolean;
	egress: boolean;
}

/** How long the guardian has to report that the box is gone. */
const END_TIMEOUT_MS = 10_000;
/** How long an init without walls may take to find and end what it started. */
const PLAIN_PATIENCE_MS = 3_000;

/** Starts the guardian over there, which starts the box; its doors come back through the same channel. */
export async function startRemoteBox(
	connection: SshConnection,
	plan: BoxPlan,
	doors: Doors,
	facts: Record<string, unknown>,
): Promise<Launched> {
	const { agent } = plan.remote.staged;
	// Bun reads configuration from where it starts.
	const start = `cd / && exec env -i BUN_BE_BUN=1 HOME=/nowhere PATH=/usr/bin:/bin ${quote(agent)} ${quote(plan.remote.bridge)} binary`;
	const channel = await connection.start(`/bin/sh -c ${quote(start)}`);
	const tunnel = new Tunnel(
		(bytes) => channel.write(bytes),
		doors,
		plan.remote.bwrap ? toWalled(plan) : toPlain(plan),
	);
	let complaints = "";
	channel.on("data", (chunk: Buffer) => tunnel.receive(chunk));
	channel.stderr.on("data", (chunk: Buffer) => {
		complaints = (complaints + chunk.toString()).slice(-1000);
	});
	channel.on("error", () => {});
	channel.once("close", () => tunnel.close(complaints.trim() || "the guardian of the box is gone"));
	void connection.closed.then((words) => tunnel.close(words));
	return {
		facts: { ...describeBox(plan), ...facts },
		exited: tunnel.ended,
		kill: async () => {
			tunnel.kill();
			const late = setTimeout(() => tunnel.close("the guardian did not answer"), END_TIMEOUT_MS);
			await tunnel.ended;
			clearTimeout(late);
			// A guardian whose channel is closed ends its box, if it has not yet.
			channel.end();
		},
	};
}

/** The shell opens the file bubblewrap reads its arguments from; nothing of it shows inside. */
const OPEN_FILES = 'exec "$@" 3<"$0/args" 4>"$0/info" 5</proc';

function toWalled(plan: BoxPlan): BridgeOrder {
	const { folder, remote, spec } = plan;
	const bwrap = {
		spec,
		uid: null,
		staged: remote.staged,
		runDirectory: `${folder}/run`,
		cgroup: { version: "none" as const, folders: [], note: "" },
		init: initConfig({ ...plan, run: BOX_RUN, processes: spec.pids }),
		facts: {},
	};
	return {
		folder,
		folders: ["run"],
		files: { args: Buffer.from(`${bwrapArguments(bwrap).join("\0")}\0`).toString("base64") },
		sockets: socketsIn(`${folder}/run`, plan),
		room: ROOM,
		argv: ["/bin/sh", "-c", OPEN_FILES, folder, ...wrapperArguments(bwrap).slice(1)],
		env: {},
		silenceMs: SILENCE_MS,
		patienceMs: 0,
	};
}

function toPlain(plan: BoxPlan): BridgeOrder {
	const { folder, remote } = plan;
	const init = initConfig({
		...plan,
		run: `${folder}/run`,
		processes: plan.spec.pids,
		plain: { home: `${folder}/home`, temporary: `${folder}/tmp`, bin: dirname(remote.staged.runUntrusted) },
	});
	return {
		folder,
		folders: ["run", "home", "tmp"],
		files: {},
		sockets: socketsIn(`${folder}/run`, plan),
		room: ROOM,
		argv: [remote.staged.agent, remote.staged.init, JSON.stringify(init)],
		env: { BUN_BE_BUN: "1", HOME: "/nowhere", PATH: "/usr/bin:/bin" },
		silenceMs: SILENCE_MS,
		patienceMs: PLAIN_PATIENCE_MS,
	};
}

function describeBox({ remote, spec }: BoxPlan): Record<string, unknown> {
	if (!remote.bwrap) return { isolation: "none", machine: remote.system, network: "that machine's" };
	return {
		isolation: "bubblewrap",
		machine: remote.system,
		uid: "shared with the login",
		seccomp: true,
		capabilities: "none",
		network: spec.network,
		cgroup: "none",
		memoryLimitMb: null,
		pidsLimit: spec.pids,
		cpus: null,
		diskLimitMb: spec.diskMb,
		fileSizeLimitMb: spec.fileSizeMb,
	};
}
