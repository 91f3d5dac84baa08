import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ApiError, createClient } from "../../src/client/client.ts";
import { readLines } from "../../src/client/lines.ts";
import { createApp } from "../../src/server/app.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";

const request = {
	task: { id: "t", instruction: "x" },
	endpoint: { type: "policy" as const, policy: "noop" },
};

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;
beforeAll(async () => {
	paddock = await openIdlePaddock({ token: "the-token" });
	app = createApp(paddock);
});
afterAll(() => paddock[Symbol.asyncDispose]());

function clientWith(fetch: (url: string, init: RequestInit) => Promise<Response>, token = "the-token") {
	return createClient({ baseUrl: "http://localhost/", token, fetch });
}

function busy(retryAfter?: string): Response {
	const problem = {
		type: "urn:paddock:queue_full",
		title: "",
		status: 429,
		code: "queue_full",
		detail: "full",
	};
	return Response.json(problem, { status: 429, headers: retryAfter ? { "retry-after": retryAfter } : {} });
}

describe("lines", () => {
	test("are the same however the network cuts them", async () => {
		const bytes = new TextEncoder().encode('{"a":"ünï"}\r\n\n{"b":2}\nlast');
		for (let cut = 0; cut <= bytes.length; cut++) {
			const stream = ReadableStream.from([bytes.subarray(0, cut), bytes.subarray(cut)]);
			expect(await Array.fromAsync(readLines(stream))).toEqual(['{"a":"ünï"}', "", '{"b":2}', "last"]);
		}
	});

	test("stop with the reader, and so does the connection", async () => {
		let cancelled = false;
		const endless = new ReadableStream<Uint8Array>({
			pull: (controller) => controller.enqueue(new TextEncoder().encode("x\n")),
			cancel: () => {
				cancelled = true;
			},
		});
		for await (const line of readLines(endless)) {
			expect(line).toBe("x");
			break;
		}
		expect(cancelled).toBe(true);
	});
});

describe("requests", () => {
	test("an answer that got lost is asked for again and makes no second rollout", async () => {
		let sent = 0;
		const client = clientWith(async (url, init) => {
			const response = await app.request(url, init);
			if (++sent === 1) throw new TypeError("fetch failed");
			return response;
		});
		const { rollouts } = await client.submit(request);
		expect(sent).toBe(2);
		expect((await client.list()).items.map((row) => row.id)).toEqual(rollouts.map((row) => row.id));
	});

	test("a refusal is an ApiError with the server's code, and is not repeated", async () => {
		let sent = 0;
		const client = clientWith(async (url, init) => {
			sent++;
			return await app.request(url, init);
		}, "wrong");
		const error = await client.submit(request).catch((reason: unknown) => reason);
		expect(error).toBeInstanceOf(ApiError);
		expect(error).toMatchObject({ status: 401, code: "token_wrong" });
		expect(sent).toBe(1);
	});

	test.each([
		["7", 7],
		[new Date(Date.now() + 1e9).toUTCString(), 60],
	])(
		"a full queue that says Retry-After: %s is asked again after %d s or a little more",
		async (retryAfter, seconds) => {
			const client = clientWith(async () => busy(retryAfter));
			const enough = new AbortController();
			const delays: number[] = [];
			const onWait = (_error: unknown, delayMs: number) => {
				delays.push(delayMs);
				enough.abort(new Error("enough"));
			};
			await expect(client.submit(request, { noMoreTries: enough.signal, onWait })).rejects.toThrow("enough");
			expect(delays).toHaveLength(1);
			expect(delays[0]! / 1000).toBeGreaterThanOrEqual(seconds);
			expect(delays[0]! / 1000).toBeLessThanOrEqual(seconds * 1.25);
		},
	);

	test("a full queue is waited for, with the same idempotency key", async () => {
		const bodies: string[] = [];
		const client = clientWith(async (url, init) => {
			bodies.push(String(init.body));
			return bodies.length < 3 ? busy() : await app.request(url, init);
		});
		expect((await client.submit(request)).rollouts).toHaveLength(1);
		expect(bodies).toHaveLength(3);
		expect(new Set(bodies).size).toBe(1);
	});

	test("a request under way when no more tries are wanted is answered all the same", async () => {
		const enough = new AbortController();
		const client = clientWith(async (url, init) => {
			enough.abort();
			init.signal?.throwIfAborted();
			return await app.request(url, init);
		});
		expect((await client.submit(request, { noMoreTries: enough.signal })).rollouts).toHaveLength(1);
	});

	test("waiting has an end: the last error is thrown", async () => {
		const full = clientWith(async () => busy("10"));
		await expect(full.submit(request, { queueForMs: 5_000 })).rejects.toMatchObject({ code: "queue_full" });
		const gone = clientWith(() => Promise.reject(new TypeError("fetch failed")));
		await expect(gone.submit(request, { giveUpAfterMs: 0 })).rejects.toThrow("fetch failed");
	});

	test("pauses after broken connections grow, and differ from one waiter to the next", async () => {
		const waiter = async () => {
			const delays: number[] = [];
			const client = clientWith(() => Promise.reject(new TypeError("fetch failed")));
			const enough = new AbortController();
			const onWait = (_error: unknown, delayMs: number) => {
				if (delays.push(delayMs) === 3) enough.abort();
			};
			await client.submit(request, { noMoreTries: enough.signal, onWait }).catch(() => {});
			return delays;
		};
		const [one, other] = await Promise.all([waiter(), waiter()]);
		expect(one).not.toEqual(other);
		expect(one[2]).toBeGreaterThan(one[0]!);
	});

	test("an answer of something that is no Paddock is said so", async () => {
		const client = clientWith(async () => new Response("<html>Bad gateway</html>", { status: 502 }));
		await expect(client.status()).rejects.toMatchObject({ status: 502, code: "not_paddock" });
	});

	test("wait gives the finished rollout", async () => {
		const client = clientWith(async (url, init) => await app.request(url, init));
		const { rollouts } = await client.submit(request);
		const waiting = client.wait(rollouts[0]!.id);
		await paddock.complete(rollouts[0]!.id, 0.25);
		expect(await waiting).toMatchObject({ status: "done", reward: 0.25 });
	});

	test("a server that stays away is given up on", async () => {
		const client = clientWith(() => Promise.reject(new TypeError("fetch failed")));
		const events = client.events("ro_1", { giveUpAfterMs: 0 });
		await expect(events.next()).rejects.toThrow("fetch failed");
	});
});
