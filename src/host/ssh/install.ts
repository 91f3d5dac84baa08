import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ClientChannel } from "ssh2";
import { RolloutError } from "../../errors.ts";
import type { Installed } from "../../model/host.ts";
import { digestOf } from "../digest.ts";
import { Tail } from "../tail.ts";
import type { CommandLimits, SshConnection } from "./connection.ts";
import { quote } from "./quote.ts";

export interface Program {
	/** What it is called there. */
	name: string;
	/** Its bytes, or the file that holds them. */
	content: Buffer | string;
	/** Hears how much of it has been sent, in whole percents. */
	onProgress?: ((percent: number) => void) | undefined;
}

const STDERR_BYTES = 1024;
/** The agent over a thin line, behind somebody else who sends the same. */
const INSTALL_TIMEOUT_MS = 3_600_000;

/** Where a program lies in a machine's cache: its folder is named by the content's checksum. */
export function placeOf(cache: string, sha256: string, name: string): string {
	return `${cache}/${sha256}/${name}`;
}

/** What lies there is read, not believed: whoever shares the account can put something else under the name. */
export async function isThere(
	connection: SshConnection,
	{ path, sha256 }: Pick<Installed, "path" | "sha256">,
	limits?: CommandLimits,
): Promise<boolean> {
	const { stdout } = await connection.script(`sha256sum < ${quote(path)}`, limits);
	return stdout.slice(0, 64) === sha256;
}

/**
 * Brings a program to the machine's cache, unless it is there. Of several that install at once one sends, the others wait for it by
 * a lock that ends with the one who has it; what arrived is checked there before it gets its name.
 */
export async function ensureInstalled(
	connection: SshConnection,
	cache: string,
	program: Program,
	limits: CommandLimits = {},
): Promise<Installed> {
	const { name, content } = program;
	const sha256 = await digestOf(content);
	const path = placeOf(cache, sha256, name);
	limits.signal?.throwIfAborted();
	const channel = await connection.start(`/bin/sh -c ${quote(toScript(path, sha256))}`);
	const complaints = new Tail(STDERR_BYTES);
	channel.stderr.on("data", (chunk: Buffer) => complaints.push(chunk));
	const sending = send(channel, program, connection.closed);
	const said = await connection.within({ timeoutMs: INSTALL_TIMEOUT_MS, ...limits }, channel, sending);
	if (said.includes("done\n")) return { path, sha256, isNew: true };
	if (said.includes("present\n")) return { path, sha256, isNew: false };
	const why = complaints.text().trim() || "what arrived is not what was sent";
	throw new RolloutError("sandbox", "ssh_install_failed", `${name}: ${why}`, { retryable: true });
}

/** When it is asked for; resolves to what the machine said in the end. */
async function send(
	channel: ClientChannel,
	{ content, onProgress }: Program,
	lost: Promise<unknown>,
): Promise<string> {
	const said = new Tail(STDERR_BYTES);
	const closed = new Promise<void>((resolve) => channel.once("close", () => resolve()));
	const isWanted = await new Promise<boolean>((resolve) => {
		channel.on("data", (chunk: Buffer) => {
			said.push(chunk);
			if (said.text().includes("send\n")) resolve(true);
		});
		void Promise.race([closed, lost]).then(() => resolve(false));
	});
	if (isWanted) {
		// A machine that stops listening says why on its way out.
		await pipeline(sourceOf(content), await progress(content, onProgress), channel).catch(() => {});
		await Promise.race([closed, lost]);
	}
	return said.text();
}

/** The kernel takes the lock back from whoever dies with it; what a dead one left half-sent is nobody's. */
function toScript(path: string, sha256: string): string {
	const folder = dirname(path);
	const locked = `
have() { [ "$( { sha256sum < "$1" | cut -c 1-64; } 2>/dev/null )" = ${sha256} ]; }
if have ${quote(path)}; then echo present; exit 0; fi
part=${quote(`${path}.part`)}
trap 'rm -f "$part"' EXIT
rm -f "$part"
echo send
cat > "$part" && have "$part" && chmod 500 "$part" && mv -f "$part" ${quote(path)} && echo done`;
	return `umask 077; mkdir -p ${quote(folder)} && exec flock ${quote(`${folder}.lock`)} /bin/sh -c ${quote(locked)}`;
}

function sourceOf(content: Buffer | string): Readable {
	return typeof content === "string" ? createReadStream(content) : Readable.from([content]);
}

async function progress(content: Buffer | string, onProgress: Program["onProgress"]): Promise<Transform> {
	const size = typeof content === "string" ? (await stat(content)).size : content.length;
	let sent = 0;
	let told = -1;
	return new Transform({
		transform(chunk: Buffer, _encoding, next) {
			sent += chunk.length;
			const percent = Math.floor((100 * sent) / size);
			if (percent > told) onProgress?.(percent);
			told = Math.max(told, percent);
			next(null, chunk);
		},
	});
}
