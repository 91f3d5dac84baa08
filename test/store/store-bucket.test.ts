import { expect, test, vi } from "vitest";
import { isOutage } from "../../src/errors.ts";
import { BucketBytes } from "../../src/store/bytes/bucket-bytes.ts";
import { signedHeaders } from "../../src/store/bytes/bucket-signature.ts";
import { bytePlacesFrom } from "../../src/store/bytes/places.ts";
import { startBucket } from "../fakes/bucket.ts";

const credentials = { accessKeyId: "id", secretAccessKey: "secret/with+signs", region: "eu-central-1" };

test("a signature is the one that the published examples give", () => {
	const example = {
		accessKeyId: "AKIAIOSFODNN7EXAMPLE",
		secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		region: "us-east-1",
	};
	const at = new Date("2013-05-24T00:00:00Z");
	const signatureOf = (url: string, headers: Record<string, string> = {}) =>
		signedHeaders({ method: "GET", url: new URL(url), headers, body: null }, example, at)
			.authorization?.split("Signature=")
			.at(-1);
	expect(signatureOf("https://examplebucket.s3.amazonaws.com/test.txt", { range: "bytes=0-9" })).toBe(
		"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
	);
	expect(signatureOf("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J")).toBe(
		"34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
	);
});

test("blobs and traces come back from a bucket as they went in, page by page", async () => {
	await using bucket = await startBucket(credentials.secretAccessKey);
	await using one = new BucketBytes({ url: bucket.url, ...credentials });
	await using two = new BucketBytes({ url: bucket.url, ...credentials });
	const names = Array.from({ length: 8 }, (_, index) => `blob-${index}.json`);
	for (const name of names) await one.putBlob("ro_1", name, Buffer.from(name));
	await one.putBlob("ro_1", names[0]!, Buffer.from("replaced"));
	await one.putBlob("ro_10", "other", Buffer.from("x"));
	expect(await two.listBlobs("ro_1")).toEqual(names);
	expect((await two.getBlob("ro_1", names[0]!))?.toString()).toBe("replaced");
	expect(await two.getBlob("ro_1", "missing")).toBeNull();

	const chunks = Array.from({ length: 20 }, (_, index) => Buffer.alloc(index * 50, index));
	for (const chunk of chunks.slice(0, 10)) await one.appendTrace("ro_1", 1, chunk);
	await Promise.all(chunks.slice(10).map((chunk) => one.appendTrace("ro_1", 1, chunk)));
	await one.appendTrace("ro_1", 11, Buffer.from("another attempt"));
	const read: Uint8Array[] = [];
	for await (const chunk of two.readTrace("ro_1", 1)) read.push(chunk);
	expect(Buffer.concat(read)).toEqual(Buffer.concat(chunks));
	expect([...bucket.objects.keys()].every((key) => key.startsWith("some/prefix/"))).toBe(true);
	expect(bucket.refused).toBe(0);
});

test("a trace is read in the order it was written, though the clock was set back meanwhile", async () => {
	await using bucket = await startBucket(credentials.secretAccessKey);
	await using bytes = new BucketBytes({ url: bucket.url, ...credentials });
	await bytes.appendTrace("ro_1", 1, Buffer.from("first "));
	vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 3_600_000 });
	try {
		await bytes.appendTrace("ro_1", 1, Buffer.from("second"));
	} finally {
		vi.useRealTimers();
	}
	expect(Buffer.concat(await Array.fromAsync(bytes.readTrace("ro_1", 1))).toString()).toBe("first second");
});

test("a chunk that may have arrived, and is sent again, is there once", async () => {
	await using bucket = await startBucket(credentials.secretAccessKey);
	await using bytes = new BucketBytes({ url: bucket.url, ...credentials });
	bucket.loseAnswers = 4;
	await expect(bytes.appendTrace("ro_1", 1, Buffer.from("once "))).rejects.toSatisfy(isOutage);
	await bytes.appendTrace("ro_1", 1, Buffer.from("once "));
	await bytes.appendTrace("ro_1", 1, Buffer.from("then"));
	expect(Buffer.concat(await Array.fromAsync(bytes.readTrace("ro_1", 1))).toString()).toBe("once then");
});

test("a bucket that stumbles is asked again; one that refuses is not, and the secret stays unsaid", async () => {
	await using bucket = await startBucket(credentials.secretAccessKey);
	await using bytes = new BucketBytes({ url: bucket.url, ...credentials });
	bucket.failNext = 2;
	await bytes.putBlob("ro_1", "agent.log", Buffer.from("kept"));
	expect((await bytes.getBlob("ro_1", "agent.log"))?.toString()).toBe("kept");
	await using stranger = new BucketBytes({ url: bucket.url, ...credentials, secretAccessKey: "wrong" });
	const refused = stranger.putBlob("ro_1", "agent.log", Buffer.from("forged"));
	await expect(refused).rejects.toThrow(/403 SignatureDoesNotMatch/);
	await expect(refused).rejects.not.toThrow(/wrong/);
	expect(bucket.refused).toBe(1);
	await expect(bytes.putBlob("../x", "agent.log", Buffer.from(""))).rejects.toThrow(/rollout id/);
});

test("the environment says where bytes go, and what is missing", () => {
	expect(bytePlacesFrom({})).toEqual({});
	expect(bytePlacesFrom({ PADDOCK_BLOB_DIRECTORY: "/mnt/shared" })).toEqual({ blobDirectory: "/mnt/shared" });
	const url = "https://minio.example:9000/paddock";
	const keys = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };
	expect(bytePlacesFrom({ PADDOCK_BUCKET_URL: url, ...keys })).toEqual({
		bucket: { url, region: "us-east-1", accessKeyId: "id", secretAccessKey: "secret" },
	});
	expect(() => bytePlacesFrom({ PADDOCK_BUCKET_URL: url })).toThrow(/AWS_ACCESS_KEY_ID/);
	expect(() => bytePlacesFrom({ PADDOCK_BUCKET_URL: "https://host/", ...keys })).toThrow(/host\/bucket/);
	expect(() => bytePlacesFrom({ PADDOCK_BUCKET_URL: url, PADDOCK_BLOB_DIRECTORY: "/x" })).toThrow(/not both/);
});
