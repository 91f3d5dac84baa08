import { createHash, createHmac } from "node:crypto";

export interface BucketCredentials {
	accessKeyId: string;
	secretAccessKey: string;
	/** For temporary credentials. */
	sessionToken?: string | undefined;
	region: string;
}

/** The headers that sign an S3 request (AWS Signature Version 4), those given included. */
export function signedHeaders(
	request: { method: string; url: URL; headers?: Record<string, string>; body: Uint8Array | null },
	credentials: BucketCredentials,
	now: Date = new Date(),
): Record<string, string> {
	const time = now.toISOString().replace(/[-:]|\.\d{3}/g, "");
	const scope = `${time.slice(0, 8)}/${credentials.region}/s3/aws4_request`;
	const bodyHash = sha256(request.body ?? "");
	const headers: Record<string, string> = {
		...request.headers,
		host: request.url.host,
		"x-amz-content-sha256": bodyHash,
		"x-amz-date": time,
		...(credentials.sessionToken === undefined ? {} : { "x-amz-security-token": credentials.sessionToken }),
	};
	const names = Object.keys(headers).sort();
	const canonical = [
		request.method,
		request.url.pathname,
		canonicalQuery(request.url.searchParams),
		...names.map((name) => `${name}:${headers[name]!.trim()}`),
		"",
		names.join(";"),
		bodyHash,
	].join("\n");
	const toSign = ["AWS4-HMAC-SHA256", time, scope, sha256(canonical)].join("\n");
	const key = scope.split("/").reduce<string | Buffer>(hmac, `AWS4${credentials.secretAccessKey}`);
	const authorization = [
		`AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId}/${scope}`,
		`SignedHeaders=${names.join(";")}`,
		`Signature=${hmac(key, toSign).toString("hex")}`,
	].join(",");
	return { ...headers, authorization };
}

function canonicalQuery(parameters: URLSearchParams): string {
	const pairs = [...parameters].map(([name, value]) => `${encode(name)}=${encode(value)}`);
	return pairs.sort().join("&");
}

/** Stricter than encodeURIComponent: only letters, digits and -._~ stay. */
function encode(text: string): string {
	return encodeURIComponent(text).replace(
		/[!'()*]/g,
		(sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
	);
}

function sha256(data: string | Uint8Array): string {
	return createHash("sha256").update(data).digest("hex");
}

function hmac(key: string | Buffer, text: string): Buffer {
	return createHmac("sha256", key).update(text).digest();
}
