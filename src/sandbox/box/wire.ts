/**
 * What the host and the init inside a box say to each other. Both ends are written against this file, which stands
 * alone: it travels into the box with the init.
 */

/** What the box says. */
export const FROM_BOX = { result: 0, stdout: 1, stderr: 2, started: 4, failed: 5 } as const;
/** What the host says. */
export const TO_BOX = { request: 0, stdin: 1, stdinEnd: 2, file: 3 } as const;

/** Type and length. */
export const HEADER_BYTES = 5;

/** What the init keeps for itself beyond `processes`; a limit around the whole box has to leave room for it. */
export const PROCESS_HEADROOM = 64;

/** What the init ends with when it could not begin, and when it has lost the host while doing so. */
export const INIT_EXIT = { notGreeted: 70, noHost: 71 } as const;

/** The variable that marks the processes of a box without walls. */
export const BOX_MARK = "PADDOCK_BOX";

/** What the init is told on its command line, as JSON. */
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
	/** A descriptor of the host's own /proc, where the box's is read-only: good for one file of the init's own, then closed. */
	procDescriptor?: number | undefined;
	/** How many processes and threads commands may have at once; absent where the backend sees to that itself. */
	processes?: number | undefined;
}

/** The init's first line, over the connection it makes before any agent code exists. */
export interface Hello {
	pid: number;
	/** The loopback ports its forwarders listen on, in the order they were asked for. */
	ports: number[];
	/** Whether the init's memory is hidden from other processes of its uid. */
	hidden: boolean;
}

/** What the host says over that connection: connect again with this nonce, or signal what runs behind one. */
export type Order = { open: string } | { signal: string; name: NodeJS.Signals };

/** The first frame of a connection: the one operation it is for. */
export type Request =
	| ExecRequest
	| ConnectRequest
	| ReadRequest
	| { op: "write" }
	| ListRequest
	| { op: "exists"; path: string }
	| { op: "killAll" };

export interface ExecRequest {
	op: "exec";
	argv: readonly string[];
	cwd?: string | undefined;
	env: Record<string, string>;
	/** Without it the command reads from /dev/null. */
	stdin?: boolean | undefined;
}

export interface ConnectRequest {
	op: "connect";
	port: number;
	/** The nonce of the command that listens there: once it has ended, whoever has taken its place is not spoken to. */
	command?: string | undefined;
}

export interface ReadRequest {
	op: "read";
	path: string;
	maxBytes: number;
}

/** Begins a file of a `write`; its content follows. */
export interface FileHeader {
	path: string;
	executable: boolean;
}

export interface ListRequest {
	op: "list";
	path: string;
	recursive: boolean;
	maxEntries: number;
}

export function encodeFrame(type: number, payload: string | Uint8Array): Buffer {
	const body = typeof payload === "string" ? Buffer.from(payload) : payload;
	const frame = Buffer.allocUnsafe(HEADER_BYTES + body.length);
	frame.writeUInt8(type, 0);
	frame.writeUInt32BE(body.length, 1);
	frame.set(body, HEADER_BYTES);
	return frame;
}
