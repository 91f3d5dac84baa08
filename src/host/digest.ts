import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";

/** The SHA-256 by which programs are known on every machine: of bytes, or of the file that holds them. */
export async function digestOf(content: Buffer | string): Promise<string> {
	const hash = createHash("sha256");
	if (typeof content !== "string") return hash.update(content).digest("hex");
	await pipeline(createReadStream(content), hash);
	return hash.digest("hex");
}
