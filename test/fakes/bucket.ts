import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

export interface Bucket extends AsyncDisposable {
	url: string;
	objects: Map<string, Buffer>;
	/** The next so many requests are answered with 503. */
	failNext: number;
	/** The next so many requests are carried out, and their connections cut. */
	loseAnswers: number;
	/** Requests whose signature was wrong. */
	refused: number;
}

/** A small S3 server: PUT, GET and paged listing of one bucket, for whoever signs with this secret. */
export async function startBucket(secret: string, pageSize = 3): Promise<Bucket> {
	const server = createServer((request, response) => void answer(request, response));
	server.listen(0, "127.0.0.1");
	await once(server, "listening");
	const bucket: Bucket = {
		url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/paddock/some/prefix`,
		objects: new Map(),
		failNext: 0,
		loseAnswers: 0,
		refused: 0,
		[Symbol.asyncDispose]: async () => {
			server.closeAllConnections();
			server.close();
			await once(server, "close");
		},
	};
	return bucket;

	async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
		const body = await buffer(request);
		if (bucket.failNext > 0) {
			bucket.failNext -= 1;
			response.writeHead(503).end("<Error><Code>SlowDown</Code></Error>");
			return;
		}
		if (!isSigned(request, body, secret)) {
			bucket.refused += 1;
			response.writeHead(403).end("<Error><Code>SignatureDoesNotMatch</Code></Error>");
			return;
		}
		const url = new URL(request.url!, "http://bucket");
		const key = decodeURIComponent(url.pathname.replace(/^\/paddock\/?/, ""));
		if (request.method === "PUT") {
			bucket.objects.set(key, body);
			if (bucket.loseAnswers > 0) {
				bucket.loseAnswers -= 1;
				response.destroy();
			} else response.end();
			return;
		}
		if (key === "") {
			response.end(list(url.searchParams));
			return;
		}
		const object = bucket.objects.get(key);
		if (object) response.end(object);
		else response.writeHead(404).end("<Error><Code>NoSuchKey</Code></Error>");
	}

	function list(query: URLSearchParams): string {
		const after = query.get("continuation-token") ?? "";
		const keys = [...bucket.objects.keys()]
			.filter((key) => key.startsWith(query.get("prefix")!) && key > after)
			.sort();
		const page = keys.slice(0, pageSize);
		const next =
			keys.length > pageSize ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : "";
		const contents = page.map((key) => `<Contents><Key>${key}</Key></Contents>`).join("");
		return `<?xml version="1.0"?><ListBucketResult>${contents}${next}</ListBucketResult>`;
	}
}

/** Works the signature out from what arrived, as a server does. */
function isSigned(request: IncomingMessage, body: Buffer, secret: string): boolean {
	const given = /Credential=[^/]+\/([^,]+),SignedHeaders=([^,]+),Signature=([0-9a-f]+)/.exec(
		request.headers.authorization ?? "",
	);
	if (!given) return false;
	const [, scope, names, signature] = given as unknown as [string, string, string, string];
	const hash = createHash("sha256").update(body).digest("hex");
	if (request.headers["x-amz-content-sha256"] !== hash) return false;
	const [path, query = ""] = request.url!.split("?");
	const lines = names.split(";").map((name) => `${name}:${request.headers[name]}\n`);
	const canonical = `${request.method}\n${path}\n${query.split("&").sort().join("&")}\n${lines.join("")}\n${names}\n${hash}`;
	const time = request.headers["x-amz-date"];
	const text = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${createHash("sha256").update(canonical).digest("hex")}`;
	const sign = (key: string | Buffer, part: string) => createHmac("sha256", key).update(part).digest();
	const key = scope.split("/").reduce<string | Buffer>(sign, `AWS4${secret}`);
	return sign(key, text).toString("hex") === signature;
}
