import type { CommandHandle, Sandbox as Machine } from "e2b";
import { messageOf } from "../../errors.ts";
import type { Doors } from "../box/launch.ts";
import { AGENT_PATH } from "../box/launch.ts";
import { LineDecoder, Tunnel } from "../tunnel/tunnel.ts";
import type { BridgeOrder } from "../tunnel/wire.ts";
import { BRIDGE_PATH } from "./machine.ts";

/** Of what waits to be sent, as much goes into one request. */
const REQUEST_BYTES = 512 * 1024;
const START = [
	"cd / && exec env -i BUN_BE_BUN=1 HOME=/nowhere PATH=/usr/sbin:/usr/bin:/sbin:/bin",
	`${AGENT_PATH} ${BRIDGE_PATH} lines`,
].join(" ");

/**
 * Runs the bridge as a command of the machine: requests carry its input, the command's event stream its output. As
 * root, so that the box, which is not, can neither stop it nor speak in its name.
 */
export async function openTunnel(machine: Machine, doors: Doors, order: BridgeOrder): Promise<Tunnel> {
	const decoder = new LineDecoder();
	const outbox = new Outbox();
	const tunnel = new Tunnel((bytes) => outbox.push(bytes), doors, order);
	let complaints = "";
	let forget = () => {};
	const handle = await machine.commands.run(START, {
		background: true,
		stdin: true,
		user: "root",
		timeoutMs: 0,
		onStdout: (text) => {
			forget();
			for (const frame of decoder.decode(text)) tunnel.receive(frame);
		},
		onStderr: (text) => {
			complaints = (complaints + text).slice(-1000);
		},
	});
	forget = () => forgetOutput(handle);
	outbox.onFailure = (error) => tunnel.close(`the tunnel to the box broke: ${messageOf(error)}`);
	outbox.start((bytes) => handle.sendStdin(bytes));
	void handle.wait().then(
		() => tunnel.close("the guardian of the box is gone"),
		(error) => tunnel.close(complaints.trim() || `the guardian of the box is gone: ${messageOf(error)}`),
	);
	return tunnel;
}

/** The SDK keeps all a command ever said; of a tunnel that would be every byte of the rollout. */
function forgetOutput(handle: CommandHandle): void {
	(handle as unknown as { _stdout: string })._stdout = "";
}

/** Sends in order, one request at a time; what piles up meanwhile goes together. */
class Outbox {
	onFailure: (error: unknown) => void = () => {};
	#waiting: Buffer[] = [];
	#send: ((bytes: Buffer) => Promise<void>) | null = null;
	#sending = false;

	push(bytes: Buffer): void {
		this.#waiting.push(bytes);
		void this.#flush();
	}

	start(send: (bytes: Buffer) => Promise<void>): void {
		this.#send = send;
		void this.#flush();
	}

	async #flush(): Promise<void> {
		if (this.#sending || this.#send === null) return;
		this.#sending = true;
		try {
			while (this.#waiting.length > 0) await this.#send(this.#next());
		} catch (error) {
			this.#waiting = [];
			this.#send = null;
			this.onFailure(error);
		} finally {
			this.#sending = false;
		}
	}

	#next(): Buffer {
		let size = 0;
		let count = 0;
		while (count < this.#waiting.length && size < REQUEST_BYTES) {
			size += this.#waiting[count]!.length;
			count += 1;
		}
		return Buffer.concat(this.#waiting.splice(0, count));
	}
}
