import type { Duplex } from "node:stream";
import { HOME } from "../../model/task.ts";
import { BOX_MARK, type InitConfig } from "./wire.ts";

/** A started box, as its backend sees it. */
export interface Launched {
	/** Which protections and limits hold. */
	readonly facts: Record<string, unknown>;
	/** Resolves when the box is gone, with what it said last. Never rejects. */
	readonly exited: Promise<string>;
	/** Ends everything in the box, whatever it is doing; resolves when it is gone. */
	kill(): Promise<void>;
	/** Ends everything in the box but its init, from outside and without asking it. */
	clear?(): Promise<void>;
	/** The same where the box has used up its memory; false, and nothing is ended, where it has not. */
	makeRoom?(): Promise<boolean>;
	/** Whether the box, which has exited, did so by what ran in it. Absent where that cannot be told. */
	hasBrokenItself?(): Promise<boolean>;
	freeze?(): Promise<boolean>;
	thaw?(): Promise<void>;
}

/** Where connections out of a box arrive. A backend without shared sockets hands them over itself. */
export interface Doors {
	acceptControl(connection: Duplex): void;
	acceptGateway(connection: Duplex): void;
	acceptEgress(connection: Duplex): void;
}

export interface BoxOptions {
	id: string;
	backend: string;
	home: string;
	agentBinary: string;
	/** Starts the in-box init; its connections come back through `doors`. */
	launch(doors: Doors): Promise<Launched>;
	/** A folder for the box's sockets, or null when the backend hands connections over itself. */
	runDirectory: string | null;
	/** Whose sockets they are, when that is not the host program's own uid. */
	socketOwner?: number | undefined;
	onGateway: ((connection: Duplex) => void) | null;
	onEgress?: ((connection: Duplex) => void) | undefined;
	/** Removes what the backend made for this box, after its death. */
	release(): Promise<void>;
	signal?: AbortSignal | undefined;
	readyTimeoutMs?: number | undefined;
	/** How long the init may take to answer before the box counts as lost. */
	answerTimeoutMs?: number | undefined;
}

/** Where the agent's binary, the init and the host's sockets lie inside every box with walls. */
export const AGENT_PATH = "/opt/agent/opencode";
export const INIT_PATH = "/opt/agent/init.ts";
export const BOX_RUN = "/run/box";
/** A folder on the PATH of every command. */
export const BOX_BIN = "/opt/agent/bin";

export const CONTROL_SOCKET = "ctl.sock";
export const GATEWAY_SOCKET = "gw.sock";
export const EGRESS_SOCKET = "net.sock";

/**
 * Connections of one box to each of its doors, at a time: its appetite must not use up the host's descriptors, and a
 * crowd at one door keeps nobody from another.
 */
export const ROOM = { control: 512, gateway: 256, egress: 256 } as const;

/** Where the gateway and the way out to the network answer in every box with walls. */
const GATEWAY_PORT = 7000;
const EGRESS_PORT = 7001;

/** What a box is to be, as far as its init has to know. */
export interface InitPlan {
	boxId: string;
	/** Where the init finds the host's sockets. */
	run: string;
	/** Whether the box may reach the gateway, and the network. */
	gateway: boolean;
	egress: boolean;
	processes: number;
	/** What the box's image sets for its programs. */
	imageEnv?: Record<string, string> | undefined;
	/** Without walls the machine is shared: folders have names of their own, ports are whatever is free. */
	plain?: { home: string; temporary: string; bin: string } | undefined;
}

export function initConfig(plan: InitPlan): InitConfig {
	const { boxId, plain, imageEnv = {} } = plan;
	const sockets = socketsIn(plan.run, plan);
	const { home, temporary, bin } = plain ?? { home: HOME, temporary: "/tmp", bin: BOX_BIN };
	const path = `${bin}:${imageEnv.PATH ?? COMMON_ENV.PATH}`;
	const mark = plain === undefined ? {} : { [BOX_MARK]: boxId };
	const doors = [
		{ port: GATEWAY_PORT, to: sockets.gateway },
		{ port: EGRESS_PORT, to: sockets.egress },
	];
	return {
		boxId,
		control: sockets.control,
		forwards: doors.flatMap(({ port, to }) => (to === undefined ? [] : [{ port: plain ? 0 : port, to }])),
		home,
		env: {
			...{ ...COMMON_ENV, ...imageEnv, PATH: path, HOME: home, BOX_HOME: home, TMPDIR: temporary },
			...{ ...proxyEnv(plan.egress), ...mark },
		},
		ownPidNamespace: plain === undefined,
		processes: plan.processes,
	};
}

/** The host's sockets for one box, in the folder `run`. */
export function socketsIn(run: string, { gateway, egress }: Pick<InitPlan, "gateway" | "egress">) {
	return {
		control: `${run}/${CONTROL_SOCKET}`,
		gateway: gateway ? `${run}/${GATEWAY_SOCKET}` : undefined,
		egress: egress ? `${run}/${EGRESS_SOCKET}` : undefined,
	};
}

/** Besides these, the home, and what its image sets, a command sees only what its caller names. */
const COMMON_ENV = { PATH: "/usr/local/bin:/usr/bin:/bin", LANG: "C.UTF-8" };

function proxyEnv(egress: boolean): Record<string, string> {
	const proxy = `http://127.0.0.1:${EGRESS_PORT}`;
	const direct = "127.0.0.1,localhost";
	if (!egress) return {};
	return {
		...{ HTTP_PROXY: proxy, HTTPS_PROXY: proxy, NO_PROXY: direct },
		...{ http_proxy: proxy, https_proxy: proxy, no_proxy: direct },
	};
}
