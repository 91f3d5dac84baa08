import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config.ts";
import { openPaddock, type Paddock } from "../../src/paddock.ts";
import { createApp } from "../../src/server/app.ts";
import { describeContract } from "../../src/server/openapi.ts";
import { isOpenApiFresh } from "../../src/server/print-openapi.ts";
import { postJson, problemOf, request } from "./caller.ts";
import { brokenText, Dice, spoiled, valid } from "./fuzz.ts";

type Schema = Record<string, unknown>;
interface Operation {
	requestBody?: { content: Record<string, { schema: Schema }> };
	parameters?: { name: string; in: string; schema: Schema }[];
}

const document = describeContract();
const components = document.components?.schemas as Record<string, Schema>;
const operations = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
	Object.entries(item as Record<string, Operation>).map(([method, operation]) => ({
		path,
		method,
		operation,
	})),
);

let home: string;
let paddock: Paddock;
let app: ReturnType<typeof createApp>;
let rolloutId: string;

beforeAll(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-fuzz-"));
	paddock = await openPaddock(loadConfig({ PADDOCK_HOME: home, PADDOCK_QUEUE_LIMIT: "1000000" }, home));
	app = createApp(paddock);
	const made = await postJson(app, "/api/v1/rollouts", request());
	rolloutId = ((await made.json()) as { rollouts: { id: string }[] }).rollouts[0]!.id;
});
afterAll(async () => {
	await paddock[Symbol.asyncDispose]();
	await rm(home, { recursive: true, force: true });
});

const SEED = 20_261_115;
const ROUNDS = 300;

describe("bodies", () => {
	const withBody = operations.filter(({ operation }) => operation.requestBody);

	test.each(withBody)(
		"$method $path answers whatever is spoiled with a 4xx problem",
		async ({ path, operation }) => {
			const dice = new Dice(SEED);
			const schema = operation.requestBody!.content["application/json"]!.schema;
			let refused = 0;
			for (let round = 0; round < ROUNDS; round++) {
				const whole = valid(schema, components, dice);
				const body = dice.roll(10) === 0 ? brokenText(dice) : JSON.stringify(spoiled(whole, dice));
				const response = await postJson(
					app,
					path.replace("{id}", rolloutId).replace("{requestId}", "r1"),
					body,
				);
				// Some spoiling makes another valid body; everything else has to be a problem of the caller.
				if (response.ok) continue;
				refused++;
				const problem = await problemOf(response);
				expect({ body: body.slice(0, 500), status: problem.status }).toMatchObject({
					status: expect.toSatisfy(isCallers),
				});
			}
			expect(refused).toBeGreaterThan(ROUNDS / 3);
		},
	);

	test("what the generator calls valid fits the schema and now and then is accepted", async () => {
		const dice = new Dice(SEED);
		const schema = components.RolloutCreate!;
		const bodies = Array.from({ length: 60 }, () => valid(schema, components, dice));
		const answers = await Promise.all(bodies.map((body) => postJson(app, "/api/v1/rollouts", body)));
		expect(answers.filter((answer) => answer.status === 422)).toEqual([]);
		expect(answers.filter((answer) => answer.status === 201).length).toBeGreaterThan(3);
	});

	test.each([
		["no content type", {}, "{}", 415, "unsupported_media_type"],
		["a form", { "content-type": "application/x-www-form-urlencoded" }, "a=1", 415, "unsupported_media_type"],
		[
			"plain text",
			{ "content-type": "text/plain" },
			JSON.stringify(request()),
			415,
			"unsupported_media_type",
		],
		["half of it", { "content-type": "application/json" }, '{"task":', 400, "malformed_json"],
		["a missing task", { "content-type": "application/json" }, "{}", 422, "invalid_request"],
	])("%s is refused", async (_, headers, body, status, code) => {
		const sent = app.request("/api/v1/rollouts", {
			method: "POST",
			headers,
			body: new TextEncoder().encode(body),
		});
		expect(await problemOf(sent)).toMatchObject({ status, code });
	});

	test("a body over the limit is 413, whether or not it says its length", async () => {
		const small = createApp(paddock, { maxBodyBytes: 1000 });
		const body = JSON.stringify({ ...request(), labels: { a: "x".repeat(2000) } });
		expect(await problemOf(postJson(small, "/api/v1/rollouts", body))).toMatchObject({
			status: 413,
			code: "body_too_large",
		});
		const chunked = small.request("/api/v1/rollouts", {
			method: "POST",
			headers: { "content-type": "application/json", "transfer-encoding": "chunked" },
			body: new Blob([body]).stream(),
			duplex: "half",
		} as RequestInit);
		expect(await problemOf(chunked)).toMatchObject({ status: 413, code: "body_too_large" });
	});

	test("a problem says where the request is wrong", async () => {
		const bad = { ...request(), sandbox: "moon", tusk: 1 };
		const { issues, detail } = await problemOf(postJson(app, "/api/v1/rollouts", bad));
		expect(issues?.map((issue) => issue.path)).toContain("json.sandbox");
		expect(detail).toContain("sandbox");
	});
});

describe("queries and paths", () => {
	const reads = operations.filter(({ method }) => method === "get");
	const BAD = [
		"",
		"-1",
		"1e99",
		"NaN",
		"abc",
		"%00",
		"%ff",
		"9".repeat(400),
		"null",
		"[]",
		"'",
		"a=b",
		"%ED%A0%80",
	];

	test.each(reads)(
		"$method $path never answers a strange query or id with a 500",
		async ({ path, operation }) => {
			const names = (operation.parameters ?? [])
				.filter((parameter) => parameter.in === "query")
				.map(({ name }) => name);
			const known = path.replace("{id}", rolloutId).replace("{name}", "diff.patch");
			const urls = [
				// A long poll that is fine as it is would only wait.
				...names
					.filter((name) => name !== "wait_s")
					.flatMap((name) => BAD.map((value) => `${known}?${name}=${value}&format=json`)),
				...BAD.filter(Boolean).map((value) => path.replace("{id}", value).replace("{name}", value)),
			];
			for (const url of urls) {
				const response = await app.request(url);
				if (response.ok) {
					await response.body?.cancel();
					continue;
				}
				expect({ url, status: (await problemOf(response)).status }).toMatchObject({
					status: expect.toSatisfy(isCallers),
				});
			}
		},
	);

	test("strange headers are refused, not swallowed", async () => {
		const bad = app.request(`/api/v1/rollouts/${rolloutId}/events`, { headers: { "last-event-id": "-5" } });
		expect(await problemOf(bad)).toMatchObject({ status: 422 });
		const key = await postJson(app, "/api/v1/rollouts", request(), { "idempotency-key": "x".repeat(300) });
		expect(await problemOf(key)).toMatchObject({ status: 422 });
	});
});

test("schemas/openapi.json is what the route values say", async () => {
	expect(await isOpenApiFresh()).toBe(true);
});

function isCallers(status: number): boolean {
	return status >= 400 && status < 500;
}
