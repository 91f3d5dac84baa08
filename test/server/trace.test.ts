import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { createApp } from "../../src/server/app.ts";
import { completedCall } from "../fixtures/calls.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { clientOf, problemOf, request } from "./caller.ts";

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;
let client: Client;

beforeAll(async () => {
	paddock = await openIdlePaddock();
	app = createApp(paddock, { keepAliveMs: 5 });
	client = clientOf(app);
});
afterAll(() => paddock[Symbol.asyncDispose]());

async function createOne(): Promise<string> {
	return (await client.submit(request())).rollouts[0]!.id;
}

test.each([
	["GET", ""],
	["GET", "/result"],
	["GET", "/events"],
	["GET", "/messages"],
	["GET", "/calls"],
	["GET", "/samples"],
	["GET", "/certificate"],
	["GET", "/files"],
	["GET", "/diff"],
	["POST", "/abort"],
	["POST", "/finalize?wait_s=0"],
])("%s on an unknown rollout%s is a 404 problem", async (method, path) => {
	const problem = await problemOf(app.request(`/api/v1/rollouts/rollout_none${path}`, { method }));
	expect(problem).toMatchObject({ status: 404, code: "not_found" });
});

describe("events", () => {
	test("a stream has every event with its number, and ends after the end event", async () => {
		const id = await createOne();
		const response = await app.request(`/api/v1/rollouts/${id}/events?format=sse`);
		await paddock.complete(id, 1);
		const text = await response.text();
		const ids = [...text.matchAll(/^id: (\d+)$/gm)].map((match) => Number(match[1]));
		const events = await paddock.store.events(id, { after: 0, limit: 100 });
		expect(ids).toEqual(events.map((event) => event.seq));
		expect(text).toContain('"type":"rollout-end"');
	});

	test("Last-Event-ID resumes right after it, and wins over ?after=", async () => {
		const id = await createOne();
		await paddock.complete(id, 1);
		const response = await app.request(`/api/v1/rollouts/${id}/events?after=0`, {
			headers: { accept: "text/event-stream", "last-event-id": "2" },
		});
		expect((await response.text()).match(/^id: \d+$/gm)?.[0]).toBe("id: 3");
	});

	test("a caller that has everything is told by 204 not to come back", async () => {
		const id = await createOne();
		await paddock.complete(id, 1);
		const { items } = await events(id, "after=0");
		const headers = { accept: "text/event-stream", "last-event-id": String(items.at(-1)!.seq) };
		expect((await app.request(`/api/v1/rollouts/${id}/events`, { headers })).status).toBe(204);
	});

	test("a silent stream is kept alive by comments", async () => {
		const id = await createOne();
		const response = await app.request(`/api/v1/rollouts/${id}/events?format=sse&after=1`);
		const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
		let text = "";
		while (!text.includes(": keep-alive")) text += (await reader.read()).value;
		await reader.cancel();
	});

	test("a long poll answers as soon as something happens", async () => {
		const id = await createOne();
		const waiting = events(id, "after=1&wait_s=50");
		await paddock.store.begin(id, "w");
		const page = await waiting;
		expect(page.items.map((event) => event.type)).toEqual(["rollout-start"]);
		expect(page).toMatchObject({ next: 2, done: false });
	});

	test("pages say when the end is reached", async () => {
		const id = await createOne();
		await paddock.complete(id, 1);
		const first = await events(id, "limit=2");
		expect(first).toMatchObject({ next: 2, done: false });
		const last = await events(id, `after=${first.next}`);
		expect(last.done).toBe(true);
		expect(await events(id, `after=${last.next}&wait_s=50`)).toEqual({
			items: [],
			next: last.next,
			done: true,
		});
	});

	async function events(id: string, query: string) {
		const response = await app.request(`/api/v1/rollouts/${id}/events?${query}`);
		return (await response.json()) as { items: { seq: number; type: string }[]; next: number; done: boolean };
	}
});

describe("calls and samples", () => {
	test("calls come as pages and as lines, and are the same", async () => {
		const id = await createOne();
		const calls = [0, 1, 2].map((index) => completedCall({ index }));
		await paddock.complete(id, 1, calls);
		const page = async (after: number) =>
			(await (await app.request(`/api/v1/rollouts/${id}/calls?limit=2&after=${after}`)).json()) as {
				items: unknown[];
				next: number | null;
			};
		const first = await page(0);
		const second = await page(first.next!);
		expect(second.next).toBeNull();
		expect([...first.items, ...second.items]).toEqual(calls);
		expect(await Array.fromAsync(client.calls(id))).toEqual(calls);
	});

	test("samples carry the reward of their rollout", async () => {
		const id = await createOne();
		await paddock.complete(id, 1, [completedCall()]);
		const sample = { rolloutId: id, reward: 1, ids: [1, 2, 3, 4, 5], mask: [0, 0, 0, 1, 1] };
		expect(await Array.fromAsync(client.samples(id))).toMatchObject([sample]);
	});

	test("of tokens that cannot be trusted there is no sample, and the certificate says why", async () => {
		const id = await createOne();
		await paddock.complete(id, 1, [completedCall({ logprobs: [] })]);
		const problem = await problemOf(app.request(`/api/v1/rollouts/${id}/samples`));
		expect(problem).toMatchObject({ status: 409, code: "untrainable" });
		const { trainable, reasons } = await client.certificate(id);
		expect(trainable).toBe(false);
		expect(problem.detail).toContain(reasons[0]);
	});

	test("an unfinished rollout has no samples yet", async () => {
		const problem = await problemOf(app.request(`/api/v1/rollouts/${await createOne()}/samples`));
		expect(problem.code).toBe("rollout_unfinished");
	});
});

describe("files", () => {
	test("files and the diff are downloads that no browser shows as a page", async () => {
		const id = await createOne();
		await paddock.store.putBlob(id, 0, "diff.patch", Buffer.from("+<script>alert(1)</script>\n"));
		expect((await client.files(id)).blobs).toContain("diff.patch");
		expect(await client.diff(id)).toContain("<script>");
		expect(Buffer.from(await client.blob(id, "diff.patch")).toString()).toContain("<script>");
		for (const path of ["diff", "files/diff.patch"]) {
			const { headers } = await app.request(`/api/v1/rollouts/${id}/${path}`);
			expect(headers.get("content-disposition")).toContain("attachment");
			expect(headers.get("x-content-type-options")).toBe("nosniff");
			expect(headers.get("content-security-policy")).toContain("sandbox");
		}
	});

	test("a kept file is handed out by its path, and only by exactly that", async () => {
		const id = await createOne();
		await paddock.store.putBlob(
			id,
			0,
			"files.json",
			Buffer.from(JSON.stringify({ "src/a b.py": "print(1)\n" })),
		);
		expect(await client.file(id, "src/a b.py")).toBe("print(1)\n");
		for (const path of ["src", "../src/a b.py", "__proto__", "toString", "/etc/passwd"])
			await expect(client.file(id, path)).rejects.toMatchObject({ status: 404, code: "not_found" });
	});

	test.each(["..%2f..%2fsecret.key", "%2e%2e", ".hidden", "a%00b"])(
		"the name %s is refused",
		async (name) => {
			const id = await createOne();
			const problem = await problemOf(app.request(`/api/v1/rollouts/${id}/files/${name}`));
			expect(problem.status).toBeGreaterThanOrEqual(400);
			expect(problem.status).toBeLessThan(500);
		},
	);
});

describe("the machine", () => {
	test("its five questions are answered", async () => {
		expect((await client.health()).status).toBe("ok");
		expect((await client.status()).queueLimit).toBe(10_000);
		expect((await client.workers()).items).toEqual([]);
		const served = { name: "127.0.0.1:8001", version: "step-12" };
		expect(await client.setWeights(served.name, served.version)).toEqual(served);
		expect((await client.endpoints()).items.map(({ name }) => name)).toContain("scripted");
		expect(Object.keys(await client.sandboxes())).toContain("local");
	});

	test("the docs page names every operation and loads nothing", async () => {
		const page = await (await app.request("/docs")).text();
		const response = await app.request("/openapi.json");
		const document = (await response.json()) as { info: { version: string }; paths: object };
		expect(document.info.version).toMatch(/^1\./);
		for (const path of Object.keys(document.paths)) expect(page).toContain(path);
		expect(page).not.toMatch(/<script|src=|https?:\/\/|@import/);
	});

	test.each(["/api/v1/rollouts?task=echo", "/api/v1/health?x=1"])(
		"%s has a parameter nobody knows, and is refused",
		async (path) => {
			expect(await problemOf(app.request(path))).toMatchObject({
				status: 422,
				code: "invalid_request",
				detail: expect.stringContaining("unknown parameter"),
			});
		},
	);

	test("every operation lists what can happen to it", async () => {
		const document = (await (await app.request("/openapi.json")).json()) as {
			paths: Record<
				string,
				Record<string, { operationId?: string; requestBody?: object; responses: object }>
			>;
		};
		const ours = Object.entries(document.paths).filter(([path]) => path.startsWith("/api/"));
		for (const operation of ours.flatMap(([, item]) => Object.values(item))) {
			const always = ["401", "403", "422", "500", "503"];
			const expected = operation.requestBody ? [...always, "400", "413", "415"] : always;
			expect(Object.keys(operation.responses), operation.operationId).toEqual(
				expect.arrayContaining(expected),
			);
		}
		expect(document.paths["/api/v1/rollouts/{id}/events"]!.get!.responses).toHaveProperty("204");
	});

	test("a path that is not there is a problem too", async () => {
		expect(await problemOf(app.request("/api/v1/nothing"))).toMatchObject({
			status: 404,
			code: "no_such_path",
		});
	});
});
