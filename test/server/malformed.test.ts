import { afterAll, beforeAll, expect, test } from "vitest";
import { createApp } from "../../src/server/app.ts";
import { isOpenApiFresh } from "../../src/server/print-openapi.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { clientOf, postJson, problemOf, request } from "./caller.ts";

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;

beforeAll(async () => {
	paddock = await openIdlePaddock();
	app = createApp(paddock);
});
afterAll(() => paddock[Symbol.asyncDispose]());

test("a misspelt key is told with the one that was meant, before what is missing because of it", async () => {
	const { task, ...rest } = request();
	const misspelt = { ...rest, task: { ...task, instruction: undefined, instrction: "x" }, zzz: 1 };
	const problem = await problemOf(postJson(app, "/api/v1/rollouts", misspelt));
	expect(problem).toMatchObject({ status: 422, code: "invalid_request" });
	expect(problem.detail).toBe('body.task: unknown key "instrction"; did you mean "instruction"?');
	expect(problem.issues?.map(({ message }) => message)).toContainEqual(
		expect.stringMatching(/^unknown key "zzz"; the known ones are .*sampling/),
	);
});

test("a request has at most 64 labels", async () => {
	const labels = (count: number) =>
		Object.fromEntries(Array.from({ length: count }, (_, index) => [`l${index}`, "x"]));
	const post = (count: number) => postJson(app, "/api/v1/rollouts", { ...request(), labels: labels(count) });
	expect((await post(64)).status).toBe(201);
	expect(await problemOf(post(65))).toMatchObject({ status: 422, detail: "body.labels: at most 64 labels" });
});

test("thousands of long unknown keys are refused without being compared one by one", async () => {
	const keys = Array.from({ length: 5_000 }, (_, index) => [`${index}${"x".repeat(1_000)}`, 1]);
	const flood = { ...request(), ...Object.fromEntries(keys) };
	const problem = await problemOf(postJson(app, "/api/v1/rollouts", flood));
	expect(problem).toMatchObject({ status: 422 });
	expect(JSON.stringify(problem).length).toBeLessThan(2_000);
});

const json = { "content-type": "application/json" };

test.each([
	["no content type", {}, "{}", 415, "unsupported_media_type"],
	["a form", { "content-type": "application/x-www-form-urlencoded" }, "a=1", 415, "unsupported_media_type"],
	["plain text", { "content-type": "text/plain" }, JSON.stringify(request()), 415, "unsupported_media_type"],
	["half of it", json, '{"task":', 400, "malformed_json"],
	["a missing task", json, "{}", 422, "invalid_request"],
	[
		"200,000 wrong entries",
		json,
		JSON.stringify({ task: { id: "t", instruction: "x", setup: Array(200_000).fill(1) } }),
		422,
		"invalid_request",
	],
	["text with a NUL", json, JSON.stringify({ ...request(), labels: { a: "\0" } }), 422, "bad_text"],
	["half a character", json, JSON.stringify({ ...request(), labels: { "\ud800": "" } }), 422, "bad_text"],
])("a body that is %s is refused", async (_, headers, body, status, code) => {
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
	const whole = postJson(small, "/api/v1/rollouts", body);
	expect(await problemOf(whole)).toMatchObject({ status: 413, code: "body_too_large" });
	const chunked = small.request("/api/v1/rollouts", {
		method: "POST",
		headers: { ...json, "transfer-encoding": "chunked" },
		body: new Blob([body]).stream(),
		duplex: "half",
	} as RequestInit);
	expect(await problemOf(chunked)).toMatchObject({ status: 413, code: "body_too_large" });
});

test("a problem says where the request is wrong, and does not repeat what was sent", async () => {
	const bad = { ...request(), sandbox: "moon-base", tusk: 1 };
	const problem = await problemOf(postJson(app, "/api/v1/rollouts", bad));
	expect(problem.issues?.map((issue) => issue.path)).toContain("body.sandbox");
	expect(problem.detail).toContain("tusk");
	expect(JSON.stringify(problem)).not.toContain("moon-base");
});

test("strange headers are refused, not swallowed", async () => {
	const { rollouts } = await clientOf(app).submit(request());
	const events = `/api/v1/rollouts/${rollouts[0]!.id}/events`;
	const negative = app.request(events, { headers: { "last-event-id": "-5" } });
	expect(await problemOf(negative)).toMatchObject({ status: 422 });
	const key = postJson(app, "/api/v1/rollouts", request(), { "idempotency-key": "x".repeat(300) });
	expect(await problemOf(key)).toMatchObject({ status: 422 });
});

test("schemas/openapi.json is what the route values say", async () => {
	expect(await isOpenApiFresh()).toBe(true);
});

test("a body within its limit may not become gigabytes of copies", async () => {
	const { task, endpoint } = request();
	const rule = { tool: "bash", pattern: "x".repeat(2_000), action: "deny" };
	const agent = { permissionRules: Array(500).fill(rule) };
	const many = await postJson(app, "/api/v1/rollouts", { task, endpoint, agent, n: 1024 });
	expect(await problemOf(many)).toMatchObject({ status: 413, code: "submission_too_large" });
	const batch = { tasks: [task], endpoints: [endpoint], agent, n: 1024 };
	const refused = await postJson(app, "/api/v1/batches", batch);
	expect(await problemOf(refused)).toMatchObject({ status: 413, code: "submission_too_large" });
	expect((await postJson(app, "/api/v1/rollouts", { task, endpoint, agent, n: 2 })).status).toBe(201);
});

test("a caller with a token names images, not folders of the server's machine", async () => {
	await using guarded = await openIdlePaddock({ token: "secret-token" });
	const { task, ...rest } = request();
	const folder = { ...task, box: { image: "/srv/secrets" } };
	const bearer = { authorization: "Bearer secret-token" };
	for (const [path, body] of [
		["/api/v1/rollouts", { ...rest, task: folder }],
		["/api/v1/batches", { tasks: [task, folder], endpoints: [rest.endpoint] }],
	] as const)
		expect(await problemOf(postJson(createApp(guarded), path, body, bearer))).toMatchObject({
			status: 422,
			code: "image_folder_refused",
		});
	const named = { ...rest, task: { ...task, box: { image: "python:3.12" } } };
	expect((await postJson(createApp(guarded), "/api/v1/rollouts", named, bearer)).status).toBe(201);
});
