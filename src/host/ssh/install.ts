import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { RolloutError } from "../../errors.ts";
import type { Installed } from "../../model/host.ts";
import { Tail } from "../tail.ts";
import type { SshConnection } from "./connection.ts";
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

/**
 * Brings a program to the machine's cache, unless it is there: its folder is named by the content's checksum. Of several that
 * install at once one sends, the others wait for it by a lock that ends with the one who has it; what arrived is checked there before it gets its name, and what is
 * there is read, not believed, since whoever shares the account can put something else under the name.
 */
export async function ensureInstalled(
	connection: SshConnection,
	cache: string,
	{ name, content, onProgress }: Program,
): Promise<Installed> {
	const sha256 = await digestOf(content);
	const folder = `${cache}/${sha256}`;
	const path = `${folder}/${name}`;
	const channel = await connection.start(`/bin/sh -c ${quote(toScript(folder, path, sha256))}`);
	const said = new Tail(STDERR_BYTES);
	const complaints = new Tail(STDERR_BYTES);
	const closed = new Promise<void>((resolve) => channel.once("close", () => resolve()));
	channel.stderr.on("data", (chunk: Buffer) => complaints.push(chunk));
	const isWanted = await new Promise<boolean>((resolve) => {
		channel.on("data", (chunk: Buffer) => {
			said.push(chunk);
			if (said.text().includes("send\n")) resolve(true);
		});
		void closed.then(() => resolve(false));
		void connection.closed.then(() => resolve(false));
	});
	if (isWanted) {
		// A machine that stops listening says why on its way out.
		await pipeline(sourceOf(content), await progress(content, onProgress), channel).catch(() => {});
		await Promise.race([closed, connection.closed]);
	}
	const words = said.text();
	if (words.includes("done\n")) return { path, sha256, isNew: true };
	if (words.includes("present\n")) return { path, sha256, isNew: false };
	const why = complaints.text().trim() || "what arrived is not what was sent";
	throw new RolloutError("sandbox", "ssh_install_failed", `${name}: ${why}`, { retryable: true });
}

/** The kernel takes the lock back from whoever dies with it; what a dead one left half-sent is nobody's. */
function toScript(folder: string, path: string, sha256: string): string {
	const locked = `
have() { [ "$(sha256sum "$1" 2>/dev/null | cut -c 1-64)" = ${sha256} ]; }
if have ${quote(path)}; then echo present; exit 0; fi
part=${quote(`${path}.part`)}
rm -f "$part"
echo send
cat > "$part" && have "$part" && chmod 500 "$part" && mv -f "$part" ${quote(path)} && echo done && exit 0
rm -f "$part"
exit 1`;
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

export async function digestOf(content: Buffer | string): Promise<string> {
	const hash = createHash("sha256");
	if (typeof content !== "string") return hash.update(content).digest("hex");
	await pipeline(createReadStream(content), hash);
	return hash.digest("hex");
}
