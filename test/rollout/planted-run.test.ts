import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Agent } from "../../src/agent/agent.ts";
import { AUTH_FILE, writeLogin } from "../../src/credential/login.ts";
import { RolloutError } from "../../src/errors.ts";
import { WORKDIR } from "../../src/model/task.ts";
import { ColdBoxes } from "../../src/rollout/boxes/cold-boxes.ts";
import type { Deps } from "../../src/rollout/deps.ts";
import { openDockerBackend } from "../../src/sandbox/docker/docker.ts";
import type { Sandbox } from "../../src/sandbox/sandbox.ts";
import { authAfter, plantedLogin } from "../credential/planted/stage.ts";
import { missingForEngine, startEngine } from "../fixtures/docker-engine.ts";
import { filesHolding } from "../fixtures/evidence.ts";
import { requirePart } from "../fixtures/parts.ts";
import { task } from "../fixtures/script.ts";
import { openStage, type Stage, scriptAgent } from "./fixture.ts";

const ENDPOINT = { type: "named", name: "cred:ada" } as const;
/** What the agent writes as its last act, and where it has copied it to. */
const ROTATE = `cat > ~/${AUTH_FILE} <<'E'\n${authAfter(1)}\nE\ncp ~/${AUTH_FILE} copied.json`;

let stage: Stage;
beforeAll(async () => {
	stage = await openStage(scriptAgent(ROTATE));
});
afterAll(() => stage[Symbol.asyncDispose]());

async function withLogin<T>(
	act: () => Promise<T>,
	more: Parameters<typeof plantedLogin>[1] = {},
): Promise<T> {
	await stage.store.credentials.add(plantedLogin("ada", more));
	try {
		return await act();
	} finally {
		await stage.store.credentials.remove("ada", { force: true });
	}
}

test("a rollout with a planted login leaves the newest one stored, no trace of any, and says why nobody trains on it", async () => {
	await withLogin(async () => {
		const end = await stage.play(
			task({ verify: ["cat copied.json; grep -q 'refresh-token-[1]' copied.json"] }),
			{
				endpoint: ENDPOINT,
			},
		);
		expect(end).toMatchObject({ outcome: "completed", reward: 1, failure: null });
		expect(end.summary?.untrainable).toContain("a login of its own");
		expect(end.summary?.box.network).toEqual({ allow: ["acme.example"] });
		expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 2, holders: [] });
		expect(String(await stage.store.getBlob(end.id, "verifier.stdout"))).toContain("[hidden]");
		for (const token of ["refresh-token-0", "refresh-token-1", "access-token-1"]) {
			expect(await filesHolding(stage.home, token)).toEqual([]);
			expect(JSON.stringify(end)).not.toContain(token);
		}
	});
});

test("a login without settings is planted as it is", async () => {
	const secret = writeLogin(new Map([[AUTH_FILE, authAfter(0)]]));
	await withLogin(
		async () =>
			expect(await stage.play(task(), { endpoint: ENDPOINT })).toMatchObject({ outcome: "completed" }),
		{ secret },
	);
});

test.for([
	[undefined, "acme/large"],
	["small", "acme/small"],
] as const)("a rollout that names the model %s is worked on by %s", async ([model, meant]) => {
	const booted: (string | undefined)[] = [];
	const agent: Agent = {
		...stage.ready.agent,
		boot: (...how) => {
			booted.push(how[4]);
			return stage.ready.agent.boot(...how);
		},
	};
	await withLogin(async () => {
		const endpoint = { ...ENDPOINT, model };
		const change = (deps: Deps): Deps => ({ ...deps, boxes: new ColdBoxes({ ...stage.ready, agent }) });
		expect(await stage.play(task(), { endpoint, change })).toMatchObject({ outcome: "completed" });
	});
	expect(booted).toEqual([meant]);
});

test("setup runs before the login is there", async () => {
	const setup = [`! test -e ~/${AUTH_FILE}`];
	await withLogin(async () =>
		expect(await stage.play(task({ setup }), { endpoint: ENDPOINT })).toMatchObject({ failure: null }),
	);
});

test.for(["the box does not open", "setup fails", "the agent does not start"] as const)(
	"%s: the rollout fails, and nobody is left with the login",
	async (what) => {
		await withLogin(async () => {
			const fail = async () => {
				throw new RolloutError("agent", "agent_boot_failed", "no");
			};
			const setup = what === "setup fails" ? ["false"] : [];
			const end = await stage.play(task({ setup }), {
				endpoint: ENDPOINT,
				change: (deps) => ({
					...deps,
					...(what === "the box does not open" ? { boxes: { open: fail } } : {}),
					...(what === "the agent does not start" ? { boxes: startingWith(fail) } : {}),
				}),
			});
			expect(end.outcome).toBe("failed");
			expect(await stage.store.credentials.find("ada")).toMatchObject({ version: 1, holders: [] });
		});
	},
);

/** Boxes whose agent fails when it is started. */
function startingWith(boot: () => Promise<never>): Stage["deps"]["boxes"] {
	return new ColdBoxes({ ...stage.ready, agent: { ...stage.ready.agent, boot } });
}

test("a login in use is waited for; a quarantined one fails its rollout with that reason", async () => {
	await withLogin(async () => {
		const { credentials } = stage.store;
		const hold = await credentials.acquire("ada", "somebody", 60_000);
		const playing = stage.play(task(), { endpoint: ENDPOINT });
		await new Promise(setImmediate);
		await credentials.release(hold);
		expect(await playing).toMatchObject({ outcome: "completed" });
		const late = await credentials.acquire("ada", "late", 0);
		await credentials.quarantine(late, "newer", "the hold was lost");
		expect(await stage.play(task(), { endpoint: ENDPOINT })).toMatchObject({
			outcome: "failed",
			failure: { boundary: "provider", code: "credential_quarantined" },
		});
	});
});

test("a resolver may name a planted login, and is asked once", async () => {
	await withLogin(async () => {
		let asked = 0;
		const server = createServer((_request, response) => {
			asked += 1;
			response.end("cred:ada");
		}).listen(0, "127.0.0.1");
		await once(server, "listening");
		const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
		const end = await stage.play(task(), {
			endpoint: { type: "named", name: "resolve:anyone" },
			change: (deps) => ({ ...deps, env: { PADDOCK_CREDENTIAL_RESOLVER: url } }),
		});
		server.close();
		expect(end).toMatchObject({ outcome: "completed", failure: null });
		expect(end.summary?.untrainable).toContain("a login of its own");
		expect(asked).toBe(1);
	});
});

test("a resolver that names no credential fails the rollout before its box is opened, and nobody holds anything", async () => {
	await withLogin(async () => {
		const asked: { rolloutId: string }[] = [];
		const server = createServer(async (request, response) => {
			asked.push(JSON.parse(Buffer.concat(await request.toArray()).toString()));
			response.end("https://thief.example/v1");
		}).listen(0, "127.0.0.1");
		await once(server, "listening");
		const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
		const end = await stage.play(task(), {
			endpoint: { type: "named", name: "resolve:anyone" },
			change: (deps) => ({
				...deps,
				env: { PADDOCK_CREDENTIAL_RESOLVER: url },
				boxes: { open: () => expect.unreachable() },
			}),
		});
		server.close();
		const failure = { boundary: "provider", code: "credential_unresolved" };
		expect(end).toMatchObject({ outcome: "failed", failure });
		expect(asked).toMatchObject([{ ask: "anyone", rolloutId: end.id, attempt: 1 }]);
		expect(await stage.store.credentials.list()).toMatchObject([{ label: "ada", version: 1, holders: [] }]);
	});
});

test("an agent whose login was taken away is stopped with the next heartbeat, and what it refreshed is put aside", async () => {
	await using waiting = await openStage(scriptAgent(`${ROTATE}; sleep 3000`));
	const { credentials } = waiting.store;
	await credentials.add(plantedLogin("ada"));
	const opened = Promise.withResolvers<Sandbox>();
	const change = (deps: Deps): Deps => ({
		...deps,
		boxes: {
			async open(...how) {
				const ready = await deps.boxes.open(...how);
				opened.resolve(ready.box);
				return ready;
			},
		},
	});
	const playing = waiting.play(task(), { endpoint: ENDPOINT, change });
	const box = await opened.promise;
	const hasRotated = async () => expect(await box.exists(`${WORKDIR}/copied.json`)).toBe(true);
	await vi.waitFor(hasRotated, 30_000);
	const [holder] = (await credentials.find("ada"))!.holders;
	const hold = { label: "ada", holder: holder!.holder, fence: 1 };
	// As if the database had heard nothing of it for a minute.
	await credentials.renew((await credentials.look(hold))!, 0, { exact: true });
	const next = await credentials.acquire("ada", "next", 60_000);
	const end = await playing;
	expect(end).toMatchObject({ outcome: "failed", failure: { code: "credential_lost", retryable: true } });
	expect(await credentials.look({ label: "ada", holder: "next", fence: next.fence })).toMatchObject({
		secret: next.secret,
		credential: { state: "quarantined", quarantine: [{ fence: 1 }] },
	});
}, 60_000);

test("in a container it is the same: the login comes back, and the box reaches its hosts alone", async (context) => {
	const missing = missingForEngine("docker");
	requirePart(context, "Docker", missing === null, missing ?? "");
	await using engine = await startEngine("docker");
	const ask = `exec 3<>/dev/tcp/127.0.0.1/7001; printf 'CONNECT other.example:443 HTTP/1.1\\r\\n\\r\\n' >&3; head -n 1 <&3 > asked`;
	await using contained = await openStage(scriptAgent(`${ROTATE}\n${ask}`), () =>
		openDockerBackend({ env: engine.env }),
	);
	await contained.store.credentials.add(plantedLogin("ada"));
	const end = await contained.play(task({ verify: ["grep -q 403 asked"] }), { endpoint: ENDPOINT });
	expect(end).toMatchObject({ outcome: "completed", reward: 1, failure: null });
	expect(await contained.store.credentials.find("ada")).toMatchObject({ version: 2, holders: [] });
}, 120_000);
