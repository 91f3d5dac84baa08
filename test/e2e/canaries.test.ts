import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { promisify } from "node:util";
import { deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import { AUTH_FILE } from "../../src/credential/login.ts";
import { EXPORT_FORMATS } from "../../src/export/export.ts";
import { type OauthProvider, openOauthProvider } from "../fakes/oauth-provider.ts";
import { type Evidence, filesBelow, findIn } from "../fixtures/canaries.ts";
import { openCollector } from "../fixtures/collector.ts";
import { type Daemon, freePort, startDaemon } from "../fixtures/daemon.ts";
import { type Postgres, requirePostgres, startPostgres } from "../fixtures/postgres.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";

/** What the model says: no secret, so whoever looks well finds it. */
const SAID = "canary-said-4be1f9";
const API_KEY = "sk-canary-key-77c1e2";
const BEHIND = "sk-canary-behind-09ab";
const WITH_CORES = ["prlimit", "--core=unlimited", "--"];

test.for([
	["as it is", (bytes: Buffer) => bytes],
	["deflated", deflateSync],
	["gzipped", (bytes: Buffer) => gzipSync(bytes)],
	["packed by zstd", (bytes: Buffer) => zstdCompressSync(bytes)],
	["spelt by a dump", (bytes: Buffer) => Buffer.from(`\\x${gzipSync(bytes).toString("hex")}`)],
] as const)("whoever looks for a secret finds it %s", ([, pack]) => {
	const content = Buffer.concat([
		Buffer.from("before"),
		pack(Buffer.from(`a ${SAID} b`)),
		Buffer.from("after"),
	]);
	expect(findIn(new Map([["place", content]]), ["other", SAID])).toEqual([`place: ${SAID}`]);
});

test.for(["embedded", "postgres"] as const)(
	"%s: a rollout and a conversation on a login, and one on a key, leave no token and no key anywhere",
	{ timeout: 300_000 },
	async (kind, context) => {
		if (kind === "postgres") requirePostgres(context);
		await using stack = new AsyncDisposableStack();
		const root = await mkdtemp(join(tmpdir(), "paddock-canaries-"));
		stack.defer(() => rm(root, { recursive: true, force: true }));
		const steps = [bash("env; cat ~/.local/share/opencode/auth.json; echo looked > found.txt"), say(SAID)];
		const model = stack.use(await openScriptedModel([...steps, say(`again ${SAID}`)], { apiKey: BEHIND }));
		const provider = stack.use(await openOauthProvider({ callsPerToken: 1, models: model.endpoint }));
		const direct = stack.use(await openScriptedModel(steps, { apiKey: API_KEY }));
		const collector = stack.use(await openCollector());
		const postgres = kind === "postgres" ? stack.use(await startPostgres({ fsync: "off" })) : null;
		const daemons = await startDaemons(root, collector.url, postgres);
		for (const daemon of daemons.all) stack.use(daemon);
		const { client } = daemons;

		await addCredentials(client, provider, model.endpoint.model, direct.endpoint);
		const ids = [await roll(client, "cred:ada"), await roll(client, "cred:team")];
		const talk = await converse(client);
		await client.verifyCredential("ada");
		expect(provider.rotations).toBeGreaterThanOrEqual(4);
		expect(provider).toMatchObject({ reuses: 0, overlaps: 0 });
		for (const pid of await withRefreshers(daemons.all.map((daemon) => daemon.pid)))
			expect(await coreLimitOf(pid)).toBeLessThanOrEqual(1);

		const evidence = new Map([
			...(await answersOf(client, ids, talk)),
			...(await exportsOf(client)),
			...(await filesBelow(root)),
			...(postgres === null ? [] : await dumpsOf(postgres)),
			...daemons.all.map(({ said }, index) => [`log ${index}`, said.join("\n")] as const),
			["spans", JSON.stringify(collector.spans)],
			["metrics", await (await fetch(`${daemons.url}/metrics`)).text()],
		]);
		// Where what was said is found, a secret would be found.
		const found = findIn(evidence, [SAID]).map((line) => line.split(":")[0]!.replace(root, ""));
		for (const place of [
			"events",
			"result",
			"calls",
			"export messages",
			"export openenv",
			"export atif",
			"talk",
		])
			expect(found).toContain(place);
		if (postgres !== null) expect(found).toContain("dump paddock");
		else expect(found).toContainEqual(expect.stringMatching(/^\/data\//));
		expect(findIn(evidence, [...provider.issued, API_KEY, BEHIND])).toEqual([]);
	},
);

interface Daemons {
	all: Daemon[];
	client: Client;
	url: string;
}

/** One that does everything, or a front and a worker that share nothing but the database and the master key. */
async function startDaemons(root: string, collector: string, postgres: Postgres | null): Promise<Daemons> {
	const port = await freePort();
	const keyFile = join(root, "master.key");
	await writeFile(keyFile, Buffer.alloc(32, 5), { mode: 0o600 });
	const envOf = async (name: string) => {
		const [data, home, temporary] = [name, `${name}-home`, `${name}-tmp`].map((each) => join(root, each));
		for (const folder of [home, temporary]) await mkdir(folder!);
		return {
			...{ PADDOCK_HOME: data!, HOME: home!, TMPDIR: temporary!, PADDOCK_CONCURRENCY: "2" },
			...{ OTEL_EXPORTER_OTLP_ENDPOINT: collector, PADDOCK_MASTER_KEY_FILE: keyFile },
			...(postgres === null ? {} : { PADDOCK_DATABASE_URL: postgres.url }),
		};
	};
	const serve = [
		"serve",
		"--port",
		`${port}`,
		"--log",
		"debug",
		...(postgres === null ? [] : ["--no-worker"]),
	];
	const all = [await startDaemon(serve, await envOf("data"), WITH_CORES)];
	if (postgres !== null)
		all.push(await startDaemon(["worker", "--log", "debug"], await envOf("worker"), WITH_CORES));
	const url = `http://127.0.0.1:${port}`;
	return { all, url, client: createClient({ baseUrl: url }) };
}

async function addCredentials(
	client: Client,
	{ login, baseUrl, tokenUrl, clientId }: OauthProvider,
	model: string,
	direct: { baseUrl: string; model: string },
): Promise<void> {
	const { refresh, access, expires } = JSON.parse(String(login("acme").get(AUTH_FILE))).acme;
	await client.addLogin({
		...{ label: "ada", provider: "acme", auth: { refresh, access, expires }, tokenUrl, clientId },
		...{ baseUrl, model, dialect: "vllm" },
	});
	await client.addApiKey({
		...{ label: "team", apiKey: API_KEY, baseUrl: direct.baseUrl, model: direct.model, dialect: "vllm" },
	});
}

async function roll(client: Client, name: string): Promise<string> {
	const { rollouts } = await client.submit({ task: task(), endpoint: { type: "named", name } });
	const { id } = rollouts[0]!;
	expect(await client.wait(id)).toMatchObject({ outcome: "completed", failure: null });
	return id;
}

/** Two turns, and what it keeps in between. */
async function converse(client: Client): Promise<string> {
	const { id } = await client.converse({ text: "Begin.", endpoint: { type: "named", name: "cred:ada" } });
	let turns = 0;
	for await (const event of client.conversationEvents(id)) {
		if (event.type !== "turn-end") continue;
		if (++turns === 1) await client.say(id, "Go on.");
		else await client.closeConversation(id);
	}
	expect(turns).toBe(2);
	return id;
}

/** Whatever the server tells of them. */
async function answersOf(client: Client, ids: string[], talk: string): Promise<Evidence> {
	const all = async <T>(items: AsyncIterable<T>) => JSON.stringify(await Array.fromAsync(items));
	const each = async (ask: (id: string) => Promise<unknown>) =>
		JSON.stringify(await Promise.all(ids.map(ask)));
	return new Map([
		["events", await each((id) => all(client.events(id)))],
		["calls", await each((id) => all(client.calls(id)))],
		["result", await each((id) => client.result(id))],
		["transcript", await each((id) => client.messages(id))],
		["row", await each((id) => client.get(id))],
		["diff", await each((id) => client.diff(id))],
		["talk", await all(client.conversationEvents(talk))],
		["talk transcript", JSON.stringify(await client.conversationMessages(talk))],
		["credentials", JSON.stringify(await client.credentials())],
	]);
}

async function exportsOf(client: Client): Promise<Evidence> {
	const one = async (format: (typeof EXPORT_FORMATS)[number]) => {
		const body = await client.export({ format });
		return [`export ${format}`, await buffer(body)] as const;
	};
	return new Map(await Promise.all(EXPORT_FORMATS.map(one)));
}

async function dumpsOf(postgres: Postgres): Promise<Evidence> {
	const schemas = ["paddock", "public", "pgboss"];
	const dump = async (schema: string) =>
		[`dump ${schema}`, await postgres.dump(schema).catch(() => "")] as const;
	return new Map([...(await Promise.all(schemas.map(dump))), ...(await filesBelow(postgres.folder))]);
}

/** The processes, and those of theirs that refresh tokens. */
async function withRefreshers(pids: number[]): Promise<number[]> {
	const { stdout } = await promisify(execFile)("pgrep", ["-f", "credential/refresher/main"]);
	const mine: number[] = [];
	for (const pid of stdout.trim().split("\n").map(Number)) {
		const parent = /^PPid:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/status`, "utf8").catch(() => ""))?.[1];
		if (pids.includes(Number(parent))) mine.push(pid);
	}
	expect(mine.length).toBeGreaterThan(0);
	return [...pids, ...mine];
}

/** In bytes. */
async function coreLimitOf(pid: number): Promise<number> {
	const limits = await readFile(`/proc/${pid}/limits`, "utf8");
	const soft = /^Max core file size\s+(\S+)/m.exec(limits)![1]!;
	return soft === "unlimited" ? Number.POSITIVE_INFINITY : Number(soft);
}
