import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { AUTH_FILE } from "../../src/credential/login.ts";
import { openStoreAt, type StorePlace } from "../../src/store/place.ts";
import type { Store } from "../../src/store/store.ts";
import { openOauthProvider } from "../fakes/oauth-provider.ts";
import { requirePostgres, startPostgres } from "../fixtures/postgres.ts";
import { loginAt, storedRefresh } from "./stage.ts";
import type { StormOrder } from "./storm-holder.ts";

const HOLDER = fileURLToPath(new URL("./storm-holder.ts", import.meta.url));
/** More of them for who has the time. */
const ROTATIONS = Number(process.env.PADDOCK_STORM ?? 200);
const LOGINS = 5;
const HOLDERS = 3;
/** Short, so that what a dead holder held is soon free; a machine with much to do needs the margin. */
const CLOCKS = { ttlMs: 3_000, renewMs: 200, marginMs: 2_000 };
/** Long enough for a second user to show. */
const ANSWER_MS = 20;

test.for(["embedded", "postgres"] as const)(
	"%s: whoever is killed in the middle of a rotation, the newest token of every login is stored and alive, and each was used by one at a time",
	{ timeout: 60_000 + ROTATIONS * 500 },
	async (kind, context) => {
		if (kind === "postgres") requirePostgres(context);
		await using stack = new AsyncDisposableStack();
		const home = await mkdtemp(join(tmpdir(), "paddock-storm-"));
		stack.defer(() => rm(home, { recursive: true }));
		const place: StorePlace =
			kind === "embedded"
				? { type: "sqlite", home }
				: { type: "postgres", home, url: stack.use(await startPostgres({ fsync: "off" })).url };
		const store = stack.use(await openStoreAt(place));
		const provider = stack.use(await openOauthProvider());
		const labels = Array.from({ length: LOGINS }, (_, index) => `login-${index}`);
		for (const label of labels) {
			const { login, ...rest } = loginAt(provider, label);
			await store.credentials.add({
				...rest,
				login: { ...login!, tokenUrl: `${provider.tokenUrl}?${label}` },
			});
		}
		const holders = stack.use(new Holders({ place, labels, clocks: CLOCKS, baseUrl: provider.baseUrl }));
		const enough = new Promise<void>((resolve) => {
			provider.onRotation = async (label) => {
				// The new token is the provider's secret yet: the worst moment of all.
				if (provider.rotations % 15 === 0) await killHolderOf(label, store, holders);
				if (provider.rotations % 40 === 0) holders.killOne();
				if (provider.rotations >= ROTATIONS) resolve();
			};
		});
		provider.onModelCall = () => delay(ANSWER_MS);
		for (let each = 0; each < HOLDERS; each += 1) holders.start();
		await Promise.race([enough, holders.broken]);
		holders.killAll();
		for (const label of labels) {
			expect(provider.isNewest(await storedWhenFree(store, label))).toBe(true);
			expect((await store.credentials.find(label))!.state).not.toBe("dead");
		}
		const { reuses, overlaps, intrusions, refused } = provider;
		expect({ reuses, overlaps, intrusions, refused }).toEqual({
			...{ reuses: 0, overlaps: 0, intrusions: 0, refused: 0 },
		});
		expect(holders.killed).toBeGreaterThan(ROTATIONS / 20);
	},
);

test("a second user of a login is noticed, whether it comes beside the first or the first comes back", async () => {
	await using provider = await openOauthProvider();
	const { access } = JSON.parse(String(provider.login("acme").get(AUTH_FILE))).acme;
	const call = async (user: string) => {
		const headers = { authorization: `Bearer ${access}` };
		const body = JSON.stringify({ user });
		await (await fetch(`${provider.baseUrl}/chat/completions`, { method: "POST", headers, body })).text();
	};
	for (const user of ["a", "a", "b"]) await call(user);
	expect(provider.intrusions).toBe(0);
	await call("a");
	expect(provider.intrusions).toBe(1);
	const both = Promise.withResolvers<void>();
	let calls = 0;
	provider.onModelCall = () => (++calls === 2 ? both.resolve() : both.promise);
	await Promise.all([call("c"), call("d")]);
	expect(provider.intrusions).toBe(2);
});

/** The processes that use the logins; one that was killed is replaced. */
class Holders implements Disposable {
	readonly #order: StormOrder;
	readonly #running = new Set<ChildProcess>();
	readonly #broken = Promise.withResolvers<never>();
	killed = 0;

	constructor(order: StormOrder) {
		this.#order = order;
		this.#broken.promise.catch(() => {});
	}

	/** Rejects when one ends that nobody killed. */
	get broken(): Promise<never> {
		return this.#broken.promise;
	}

	start(): void {
		const child = spawn(process.execPath, [HOLDER, JSON.stringify(this.#order)], {
			stdio: ["ignore", "ignore", "pipe"],
		});
		let said = "";
		child.stderr.on("data", (chunk: Buffer) => {
			said += chunk;
		});
		void once(child, "close").then(() => {
			if (!child.killed) this.#broken.reject(new Error(`a holder ended by itself: ${said}`));
		});
		this.#running.add(child);
	}

	killOne(pid?: number): void {
		const all = [...this.#running];
		const child =
			pid === undefined ? all[Math.floor(Math.random() * all.length)] : all.find((one) => one.pid === pid);
		if (!child) return;
		this.#end(child);
		this.start();
	}

	killAll(): void {
		for (const child of this.#running) this.#end(child);
	}

	[Symbol.dispose](): void {
		this.killAll();
	}

	#end(child: ChildProcess): void {
		this.#running.delete(child);
		this.killed += 1;
		child.kill("SIGKILL");
	}
}

async function killHolderOf(label: string, store: Store, holders: Holders): Promise<void> {
	const { holders: held } = (await store.credentials.find(label))!;
	const pid = held.map(({ holder }) => /^storm-(\d+) /.exec(holder)?.[1]).find((one) => one !== undefined);
	if (pid !== undefined) holders.killOne(Number(pid));
}

/** What a dead holder began is finished and its hold runs out; nobody tells us when. */
async function storedWhenFree(store: Store, label: string): Promise<string> {
	for (;;) {
		try {
			return await storedRefresh(store, label);
		} catch (error) {
			if ((error as { code?: string }).code !== "credential_held") throw error;
		}
		await delay(100);
	}
}
