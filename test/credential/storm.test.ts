import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
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
/** Short, so that what a dead holder held is soon free. */
const CLOCKS = { ttlMs: 1_000, renewMs: 200, marginMs: 300 };

test.for(["embedded", "postgres"] as const)(
	"%s: whoever is killed in the middle of a rotation, the newest token of every login is stored and alive",
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
		for (let each = 0; each < HOLDERS; each += 1) holders.start();
		await Promise.race([enough, holders.broken]);
		holders.killAll();
		for (const label of labels) {
			expect(provider.isNewest(await storedWhenFree(store, label))).toBe(true);
			expect((await store.credentials.find(label))!.state).not.toBe("dead");
		}
		expect({ reuses: provider.reuses, overlaps: provider.overlaps }).toEqual({ reuses: 0, overlaps: 0 });
		expect(holders.killed).toBeGreaterThan(ROTATIONS / 20);
	},
);

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
