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

/** The small named results a rollout may leave. Whoever asks for one that nobody writes is told by the compiler. */
export type BlobName = (typeof BLOB_NAMES)[number];

export function isBlobName(name: string): name is BlobName {
	return (BLOB_NAMES as readonly string[]).includes(name);
}
