import type pg from "pg";
import { UsageError } from "../../errors.ts";
import { BucketBytes, type BucketOptions } from "./bucket-bytes.ts";
import type { Bytes } from "./bytes.ts";
import { FolderBytes } from "./folder-bytes.ts";
import { PostgresBytes } from "./postgres-bytes.ts";

/** Where a PostgreSQL store keeps traces and blobs; in the database unless one of these is given. */
export interface BytePlaces {
	/** A folder that all machines share. */
	blobDirectory?: string | undefined;
	bucket?: BucketOptions | undefined;
}

export async function openBytes(places: BytePlaces, pool: pg.Pool): Promise<Bytes> {
	if (places.bucket) return new BucketBytes(places.bucket);
	if (places.blobDirectory !== undefined) return FolderBytes.open(places.blobDirectory);
	return new PostgresBytes(pool);
}

/** Reads PADDOCK_BLOB_DIRECTORY, or PADDOCK_BUCKET_URL with the usual AWS variables. */
export function bytePlacesFrom(env: Record<string, string | undefined>): BytePlaces {
	const { PADDOCK_BLOB_DIRECTORY: blobDirectory, PADDOCK_BUCKET_URL: url } = env;
	if (blobDirectory && url) {
		throw new UsageError("Set PADDOCK_BLOB_DIRECTORY or PADDOCK_BUCKET_URL, not both.", "bad_config");
	}
	if (blobDirectory) return { blobDirectory };
	if (!url) return {};
	const {
		AWS_ACCESS_KEY_ID: accessKeyId,
		AWS_SECRET_ACCESS_KEY: secretAccessKey,
		AWS_SESSION_TOKEN: token,
	} = env;
	if (!URL.canParse(url) || new URL(url).pathname.length < 2) {
		throw new UsageError(
			"PADDOCK_BUCKET_URL looks like https://host/bucket or https://host/bucket/prefix.",
			"bad_config",
		);
	}
	if (!accessKeyId || !secretAccessKey) {
		throw new UsageError(
			"PADDOCK_BUCKET_URL needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
			"bad_config",
		);
	}
	const region = env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? "us-east-1";
	return { bucket: { url, region, accessKeyId, secretAccessKey, sessionToken: token || undefined } };
}
