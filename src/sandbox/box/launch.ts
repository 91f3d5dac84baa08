import type { Duplex } from "node:stream";

/** A started box, as its backend sees it. */
export interface Launched {
	/** Which protections and limits hold. */
	readonly facts: Record<string, unknown>;
	/** Resolves when the box is gone, with what it said last. Never rejects. */
	readonly exited: Promise<string>;
	/** Ends everything in the box, whatever it is doing; resolves when it is gone. */
	kill(): Promise<void>;
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
	socketOwner?: number;
	onGateway: ((connection: Duplex) => void) | null;
	onEgress?: (connection: Duplex) => void;
	/** Removes what the backend made for this box, after its death. */
	release(): Promise<void>;
	signal?: AbortSignal;
	readyTimeoutMs?: number;
	/** How long the init may take to answer before the box counts as lost. */
	answerTimeoutMs?: number;
}

export const CONTROL_SOCKET = "ctl.sock";
export const GATEWAY_SOCKET = "gw.sock";
export const EGRESS_SOCKET = "net.sock";

/** Where the gateway and the way out to the network answer in every isolated box. */
export const GATEWAY_PORT = 7000;
export const EGRESS_PORT = 7001;

/** What the in-box init is told on its command line, as JSON. */
export interface InitConfig {
	boxId: string;
	control: string;
	/** Loopback ports (0: any) and the socket each leads to; the gateway comes first. */
	forwards: { port: number; to: string }[];
	home: string;
	/** The base environment of every command. */
	env: Record<string, string>;
	/** True only where every process the init can see belongs to the box. */
	ownPidNamespace: boolean;
	/** How many processes and threads commands may have at once; absent where the backend sees to that itself. */
	processes?: number;
}

/** What the init keeps for itself beyond `processes`; a limit around the whole box has to leave room for it. */
export const PROCESS_HEADROOM = 64;

/** Besides these a command sees only what its caller names. */
export function baseEnv(home: string, temporary: string, egress: boolean): Record<string, string> {
	const proxy = `http://127.0.0.1:${EGRESS_PORT}`;
	return {
		HOME: home,
		PATH: "/usr/local/bin:/usr/bin:/bin",
		LANG: "C.UTF-8",
		TMPDIR: temporary,
		...(egress
			? {
					HTTP_PROXY: proxy,
					HTTPS_PROXY: proxy,
					http_proxy: proxy,
					https_proxy: proxy,
					NO_PROXY: "127.0.0.1,localhost",
					no_proxy: "127.0.0.1,localhost",
				}
			: {}),
	};
}
