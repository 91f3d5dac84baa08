import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config.ts";
import { openPaddock } from "../../src/paddock.ts";
import { createApp } from "../../src/server/app.ts";
import { describeContract } from "../../src/server/openapi.ts";
import { findPostgres, requirePostgres, startPostgres } from "../fixtures/postgres.ts";
import { postJson, problemOf, request } from "./caller.ts";
import { brokenText, Dice, spoiled, valid } from "./fuzz.ts";

type Schema = Record<string, unknown>;
interface Operation {
	requestBody?: { content: Record<string, { schema: Schema }> };
	parameters?: { name: string; in: string; schema: Schema }[];
	responses: Record<string, unknown>;
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
const writes = operations.filter(({ operation }) => operation.requestBody);
const reads = operations.filter(({ method }) => method === "get");

const asked = operations.filter(
	({ operation }) => operation.parameters?.some(isFree) && !operation.requestBody,
);

const SEED = 20_261_115;
const ROUNDS = 250;
const QUERY_ROUNDS = 40;

describe.each(["embedded", "postgres"])("on the %s store", (backend) => {
	const owned = new AsyncDisposableStack();
	let app: ReturnType<typeof createApp>;
	let rolloutId: string;
	let endedId: string;

	beforeAll(async () => {
		if (backend === "postgres" && findPostgres() === null) return;
		const home = await mkdtemp(join(tmpdir(), "paddock-fuzz-"));
		owned.defer(() => rm(home, { recursive: true, force: true }));
		const env = { PADDOCK_HOME: home, PADDOCK_QUEUE_LIMIT: "1000000" };
		const database = backend === "postgres" ? owned.use(await startPostgres()) : null;
		const config = loadConfig(database ? { ...env, PADDOCK_DATABASE_URL: database.url } : env, home);
		app = createApp(owned.use(await openPaddock(config)));
		const made = await postJson(app, "/api/v1/rollouts", request());
		rolloutId = ((await made.json()) as { rollouts: { id: string }[] }).rollouts[0]!.id;
		const ended = await postJson(app, "/api/v1/rollouts", request());
		endedId = ((await ended.json()) as { rollouts: { id: string }[] }).rollouts[0]!.id;
		await app.request(`/api/v1/rollouts/${endedId}/abort`, { method: "POST" });
	});
	afterAll(() => owned.disposeAsync());

	test.for(writes)("$method $path answers whatever is spoiled with a 4xx problem", async (route, context) => {
		if (backend === "postgres") requirePostgres(context);
		const url = route.path.replace("{id}", rolloutId).replace("{requestId}", "r1");
		const schema = route.operation.requestBody!.content["application/json"]!.schema;
		const dice = new Dice(SEED);
		let refused = 0;
		for (let round = 0; round < ROUNDS; round++) {
			const whole = valid(schema, components, dice);
			const body = dice.roll(10) === 0 ? brokenText(dice) : JSON.stringify(spoiled(whole, dice));
			const headers = { "content-type": "application/json" };
			const answer = app.request(url, { method: route.method.toUpperCase(), headers, body });
			const isRefused = await expectNoBug(route, answer, body.slice(0, 500));
			if (isRefused) refused++;
		}
		expect(refused).toBeGreaterThan(ROUNDS / 3);
	});

	test("what the generator calls valid fits the schema and now and then is accepted", async (context) => {
		if (backend === "postgres") requirePostgres(context);
		const dice = new Dice(SEED);
		const bodies = Array.from({ length: 60 }, () => valid(components.RolloutCreate!, components, dice));
		const answers = await Promise.all(bodies.map((body) => postJson(app, "/api/v1/rollouts", body)));
		expect(answers.filter((answer) => answer.status === 422)).toEqual([]);
		expect(answers.filter((answer) => answer.status === 201).length).toBeGreaterThan(3);
	});

	test.for(asked)("$method $path answers no query within its schema with a 500", async (route, context) => {
		if (backend === "postgres") requirePostgres(context);
		const dice = new Dice(SEED);
		for (let round = 0; round < QUERY_ROUNDS; round++) {
			// Of a rollout that has ended nothing is waited for, however long the query would wait.
			const { url, headers } = withinSchema(route, endedId, dice);
			const answer = app.request(url, { method: route.method.toUpperCase(), headers });
			await expectNoBug(route, answer, `${url} ${JSON.stringify(headers)}`);
		}
	});

	test.for(reads)("$method $path answers no strange query or id with a 500", async (route, context) => {
		if (backend === "postgres") requirePostgres(context);
		for (const url of strangeUrls(route, rolloutId)) await expectNoBug(null, app.request(url), url);
	});
});

/**
 * Some spoiling makes another valid request; everything else has to be a problem of the caller. Either way the contract says that this
 * may be answered, unless the URL may have become another's.
 */
async function expectNoBug(
	route: (typeof operations)[number] | null,
	answer: Response | Promise<Response>,
	sent: string,
): Promise<boolean> {
	const response = await answer;
	if (route !== null) expect(Object.keys(route.operation.responses), sent).toContain(String(response.status));
	if (response.ok) {
		await response.body?.cancel();
		return false;
	}
	const { status } = await problemOf(response);
	expect({ sent, isCallers: status >= 400 && status < 500, status }).toMatchObject({ isCallers: true });
	return true;
}

function isFree(parameter: { in: string }): boolean {
	return parameter.in === "query" || parameter.in === "header";
}

function withinSchema({ path, operation }: (typeof operations)[number], id: string, dice: Dice) {
	const query = new URLSearchParams();
	const headers: Record<string, string> = {};
	for (const parameter of (operation.parameters ?? []).filter(isFree)) {
		if (dice.roll(3) === 0) continue;
		const value = String(valid(parameter.schema, components, dice));
		if (parameter.in === "query") query.set(parameter.name, value);
		else headers[parameter.name] = value;
	}
	return { url: `${path.replace("{id}", id).replace("{name}", "diff.patch")}?${query}`, headers };
}

const STRANGE = [
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

function strangeUrls({ path, operation }: (typeof reads)[number], rolloutId: string): string[] {
	// A long poll that is fine as it is would only wait.
	const names = (operation.parameters ?? []).filter(
		(parameter) => parameter.in === "query" && parameter.name !== "wait_s",
	);
	const known = path.replace("{id}", rolloutId).replace("{name}", "diff.patch");
	return [
		...names.flatMap(({ name }) => STRANGE.map((value) => `${known}?${name}=${value}&format=json`)),
		...STRANGE.filter(Boolean).map((value) => path.replace("{id}", value).replace("{name}", value)),
	];
}
