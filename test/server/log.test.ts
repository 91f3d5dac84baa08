import { describe, expect, test } from "vitest";
import { createLog, redact, secretsOf } from "../../src/log.ts";
import { createApp } from "../../src/server/app.ts";
import { openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { clientOf, postJson, request } from "./caller.ts";

const CANARY = "canary-4f1d9c2b7a6e";

function capture(secrets: string[] = []) {
	const lines: string[] = [];
	const destination = { write: (line: string) => void lines.push(line) };
	return { lines, log: createLog({ level: "debug", secrets, destination }) };
}

describe("the log", () => {
	test("is silent unless asked", () => {
		const lines: string[] = [];
		createLog({ destination: { write: (line) => void lines.push(line) } }).error("boom");
		expect(lines).toEqual([]);
	});

	test("a credential that came while the program ran is hidden from then on, and so are the tokens of a login", async () => {
		await using paddock = await openIdlePaddock();
		const words = ["plainkey4711aa", "refreshing-8812", "accessing-9921"];
		const { lines, log } = capture();
		log.info(`before: ${words[0]}`);
		const place = { baseUrl: "http://127.0.0.1:9/v1", model: "m" };
		await paddock.addApiKey({ label: "key", apiKey: words[0]!, ...place });
		const terms = { provider: "acme", tokenUrl: "http://127.0.0.1:9/token", clientId: null };
		const auth = { refresh: words[1]!, access: words[2]!, expires: 0 };
		await paddock.addLogin({ label: "login", auth, terms, ...place });
		await paddock.verifyCredential("login");
		log.warn({ said: words, err: new Error(`refused: ${words.join(" ")}`) }, `after: ${words.join(" ")}`);
		expect(lines[0]).toContain(words[0]);
		for (const word of words) expect(lines[1]).not.toContain(word);
	});

	test.each([
		[{ authorization: CANARY }],
		[{ headers: { Authorization: `Bearer ${CANARY}` } }],
		[{ request: { endpoint: { apiKey: CANARY } } }],
		[{ api_key: CANARY, hf_token: CANARY, vllm_api_key: CANARY }],
		[{ deep: [{ list: [{ accessToken: CANARY, password: CANARY }] }] }],
		[{ err: new Error(`401 for Bearer ${CANARY}`) }],
		[{ err: new Error("outer", { cause: { token: CANARY } }) }],
		[{ url: `https://user:${CANARY}@host/path` }],
	])("hides the key in %j", (fields) => {
		const { lines, log } = capture();
		log.info(fields, "something happened");
		expect(lines).toHaveLength(1);
		expect(lines[0]).not.toContain(CANARY);
		expect(lines[0]).toContain("[hidden]");
	});

	test("hides this process's own keys wherever they turn up", () => {
		const { lines, log } = capture(secretsOf({ OPENAI_API_KEY: CANARY, HOME: "/root" }));
		log.warn({ detail: `the engine said ${CANARY}` }, `and again ${CANARY}`);
		expect(lines[0]).not.toContain(CANARY);
		expect(secretsOf({ OPENAI_API_KEY: CANARY, HOME: "/root" })).toEqual([CANARY]);
	});

	test("hides the keys inside headers for a collector, and what an error that is logged bare says", () => {
		const secrets = secretsOf({ OTEL_EXPORTER_OTLP_HEADERS: `x-team=rl, x-collector=${CANARY}` });
		const { lines, log } = capture(secrets);
		log.warn(new Error(`refused ${CANARY}`));
		expect(lines).toHaveLength(1);
		expect(lines[0]).toContain("refused [hidden]");
		expect(lines[0]).not.toContain(CANARY);
	});

	test("keeps counts of tokens, and the code and stack of an error", () => {
		const error = Object.assign(new Error("no"), { code: "ENOENT" });
		expect(redact({ promptTokens: 5, tokens: { prompt: 1 } })).toEqual({
			promptTokens: 5,
			tokens: { prompt: 1 },
		});
		expect(redact(error)).toMatchObject({ code: "ENOENT", stack: expect.stringContaining("log.test") });
	});
});

test("a caller's key is in no answer and no log line", async () => {
	const { lines, log } = capture();
	await using paddock = await openIdlePaddock();
	const app = createApp(paddock, { log });
	const client = clientOf(app);
	const endpoint = { type: "url", baseUrl: "http://127.0.0.1:9/v1", model: "m", apiKey: CANARY };
	const made = await postJson(app, "/api/v1/rollouts", { ...request(), endpoint });
	const answers = [await made.text()];
	const { id } = (await client.list()).items[0]!;
	for (const broken of [
		{ ...request(), endpoint: { ...endpoint, model: 5 } },
		{ ...request(), endpoint: { ...endpoint, type: "nonsense" } },
		{ ...request(), endpoint, task: CANARY },
	])
		answers.push(await (await postJson(app, "/api/v1/rollouts", broken)).text());
	answers.push(await (await postJson(app, "/api/v1/rollouts", `{"endpoint":{"apiKey":"${CANARY}"`)).text());
	await paddock.complete(id, 1);
	for (const path of ["", "/result", "/events", "/events?format=sse", "/messages", "/calls", "/files"])
		answers.push(await (await app.request(`/api/v1/rollouts/${id}${path}`)).text());
	for (const path of ["/metrics", "/openapi.json", "/docs"])
		answers.push(await (await app.request(path)).text());
	expect(answers.filter((answer) => answer.includes(CANARY))).toEqual([]);
	expect(lines.length).toBeGreaterThan(10);
	expect(lines.filter((line) => line.includes(CANARY))).toEqual([]);
});

test("a bug is a 500 problem that says nothing of its inside, and a log line that does", async () => {
	const { lines, log } = capture();
	await using paddock = await openIdlePaddock();
	const broken = {
		...paddock,
		endpoints: () => {
			throw new Error("inner secret detail");
		},
	};
	const response = await createApp(broken, { log }).request("/api/v1/endpoints");
	const text = await response.text();
	expect(JSON.parse(text)).toMatchObject({ status: 500, code: "internal" });
	expect(text).not.toContain("inner secret");
	expect(lines.join("")).toContain("inner secret detail");
});
