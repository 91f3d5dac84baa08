import { createHash } from "node:crypto";

const BLOB_NAMES = [
	"transcript.json",
	"files.json",
	"diff.patch",
	"agent.log",
	"gateway.log",
	"install.log",
	"verifier.stdout",
	"verifier.stderr",
	"state",
] as const;

/** A file that a conversation was to deliver, by the digest of its path. */
export type DeliverableBlob = `deliverable-${string}`;

export function deliverableBlob(path: string): DeliverableBlob {
	return `deliverable-${createHash("sha256").update(path).digest("hex").slice(0, 32)}`;
}

/** The small named results a rollout may leave. Whoever asks for one that nobody writes is told by the compiler. */
export type BlobName = (typeof BLOB_NAMES)[number] | DeliverableBlob;

export function isBlobName(name: string): name is BlobName {
	return (BLOB_NAMES as readonly string[]).includes(name);
}
