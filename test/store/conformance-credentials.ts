import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, type TestContext, test } from "vitest";
import type { Hold, NewCredential } from "../../src/store/credentials.ts";
import type { RestingFixture } from "./conformance-tasks.ts";

const MINUTE = 60_000;
const CANARY = "canary-0123456789abcdef";

const KEY: NewCredential = {
	label: "team-openai",
	kind: "api-key",
	endpoint: { baseUrl: "https://api.openai.com/v1", model: "gpt-4o-mini", dialect: "openai" },
	capacity: 3,
	secret: `sk-${CANARY}`,
};
const LOGIN: NewCredential = { label: "login", kind: "login", endpoint: null, capacity: 1, secret: CANARY };

/** Stored logins, and who may use them. */
export function credentialConformance(
	name: string,
	openFixture: (context: TestContext) => Promise<RestingFixture>,
): void {
	describe(`${name} keeps credentials`, () => {
		test("one that was added is listed without its secret, which rests nowhere in clear", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const added = await store.credentials.add(KEY);
			expect(added).toMatchObject({ label: "team-openai", state: "unknown", version: 1, holders: [] });
			await using other = await fixture.open();
			expect(await other.credentials.list()).toEqual([added]);
			expect(await other.credentials.find("team-openai")).toEqual(added);
			expect(JSON.stringify(added)).not.toContain(CANARY);
			const twice = store.credentials.add({ ...KEY, secret: "another" });
			await expect(twice).rejects.toMatchObject({ code: "credential_exists" });
			expect((await other.credentials.acquire("team-openai", "w", MINUTE)).secret).toBe(KEY.secret);
			expect(await fixture.holds(CANARY)).toBe(false);
		});

		test.for([LOGIN, KEY])(
			"of fifty who want $label at once, no more get it than it can take",
			async (credential, context) => {
				await using fixture = await openFixture(context);
				await using one = await fixture.open();
				await using two = await fixture.open();
				await one.credentials.add(credential);
				const tries = await Promise.allSettled(
					Array.from({ length: 50 }, (_, index) =>
						(index % 2 === 0 ? one : two).credentials.acquire(credential.label, `holder-${index}`, MINUTE),
					),
				);
				const held = tries.flatMap((tried) => (tried.status === "fulfilled" ? [tried.value] : []));
				expect(held).toHaveLength(credential.capacity);
				expect(new Set(held.map(({ fence }) => fence)).size).toBe(credential.capacity);
				for (const tried of tries) {
					if (tried.status === "rejected") expect(tried.reason).toMatchObject({ code: "credential_held" });
				}
				await one.credentials.release(held[0]!);
				expect((await two.credentials.acquire(credential.label, "next", MINUTE)).fence).toBeGreaterThan(
					Math.max(...held.map(({ fence }) => fence)),
				);
			},
		);

		test("a holder that was too late loses it to the next, and can write nothing more", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			await one.credentials.add(LOGIN);
			const late = await one.credentials.acquire("login", "late", 0);
			// Nobody has taken it yet, so it may still be renewed, and expires again.
			expect(await one.credentials.renew(late, 0)).toBe(true);
			const next = await two.credentials.acquire("login", "next", MINUTE);
			expect(next.fence).toBeGreaterThan(late.fence);
			expect(await one.credentials.renew(late, MINUTE)).toBe(false);
			expect(await one.credentials.save(late, "stale token")).toBeNull();
			await one.credentials.release(late);
			await expect(one.credentials.acquire("login", "third", MINUTE)).rejects.toMatchObject({
				code: "credential_held",
			});
			expect(await two.credentials.renew(next, MINUTE)).toBe(true);
			await two.credentials.release(next);
			expect((await one.credentials.acquire("login", "third", MINUTE)).secret).toBe(CANARY);
		});

		test("a hold that is over is nobody's in the list, and its holder may renew it until another has taken it", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { credentials } = store;
			await credentials.add(LOGIN);
			const killed = await credentials.acquire("login", "killed", 0);
			expect(await credentials.find("login")).toMatchObject({ holders: [] });
			expect(await credentials.renew(killed, MINUTE)).toBe(true);
			expect(await credentials.list()).toMatchObject([{ holders: [{ holder: "killed" }] }]);
		});

		test("who held one that was deleted says nothing of its successor under that label, and puts nothing aside there", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { credentials } = store;
			await credentials.add(LOGIN);
			const late = await credentials.acquire("login", "late", MINUTE);
			await credentials.remove("login", { force: true });
			await credentials.add({ ...LOGIN, secret: "somebody else's" });
			const next = await credentials.acquire("login", "next", MINUTE);
			expect(next.fence).toBe(late.fence);
			await credentials.quarantine(late, "not this one's", "the hold was lost");
			await credentials.quarantine(late, null, "nobody could see it");
			await credentials.judge(late, { state: "dead", reason: "refused", isDoubtful: false });
			expect(await credentials.find("login")).toMatchObject({
				...{ state: "unknown", reason: null, quarantine: [], lastVerifiedAt: null },
			});
		});

		test("where nobody could see what is newer, what is stored is nobody's before somebody has looked", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { credentials } = store;
			await credentials.add(LOGIN);
			const hold = await credentials.acquire("login", "one", MINUTE);
			await credentials.quarantine(hold, null, "the box is gone");
			await credentials.release(hold);
			await expect(credentials.acquire("login", "x", MINUTE)).rejects.toMatchObject({
				code: "credential_quarantined",
			});
			expect(await credentials.find("login")).toMatchObject({ reason: "the box is gone", quarantine: [] });
			const probe = await credentials.acquire("login", "probe", MINUTE, { evenDead: true });
			expect(await credentials.promote(probe)).toBeNull();
			await credentials.judge(probe, { state: "alive", reason: null, isDoubtful: false });
			await credentials.release(probe);
			expect((await credentials.acquire("login", "x", MINUTE)).secret).toBe(CANARY);
		});

		test("what a holder saves is what the next one gets; a secret it has not seen it cannot replace", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { fingerprint } = await store.credentials.add(LOGIN);
			const first = await store.credentials.acquire("login", "one", MINUTE);
			let hold: Hold = first;
			for (let rotation = 1; rotation <= 5; rotation++) {
				hold = (await store.credentials.save(hold, `token-${rotation}`))!;
				expect(hold.credential.version).toBe(rotation + 1);
			}
			expect(hold.credential.fingerprint).not.toBe(fingerprint);
			expect(await store.credentials.save(first, "from before the rotations")).toBeNull();
			await store.credentials.release(hold);
			expect((await store.credentials.acquire("login", "two", MINUTE)).secret).toBe("token-5");
		});

		test("of twenty that save at once one has saved, and what is stored is whole and its own", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			await one.credentials.add(LOGIN);
			const hold = await one.credentials.acquire("login", "one", MINUTE);
			const saves = await Promise.all(
				Array.from({ length: 20 }, (_, index) =>
					(index % 2 === 0 ? one : two).credentials.save(hold, `token-${index}`),
				),
			);
			const [saved, ...more] = saves.filter((each) => each !== null);
			expect(more).toEqual([]);
			const { holder, fence } = hold;
			expect(await two.credentials.look({ label: "login", holder, fence })).toMatchObject({
				secret: saved!.secret,
				credential: { version: 2, fingerprint: saved!.credential.fingerprint },
			});
		});

		test("one flipped bit, wherever it is, and the secret is refused; flipped back, it is good", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await store.credentials.add(LOGIN);
			// In its version, the key's name, the nonce, the tag and the secret.
			for (const place of [0, 4, 12, 30, 50]) {
				await flipBit(fixture, place);
				const trying = store.credentials.acquire("login", "one", MINUTE);
				await expect(trying, `byte ${place}`).rejects.toMatchObject({ code: "secret_unreadable" });
				await flipBit(fixture, place);
			}
			expect((await store.credentials.acquire("login", "one", MINUTE)).secret).toBe(CANARY);
		});

		test("a secret that is damaged, rolled back or another's is refused, and nobody keeps the hold", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await store.credentials.add(LOGIN);
			await store.credentials.add(KEY);
			await fixture.tamper("CREATE TABLE kept AS SELECT * FROM credentials");
			const hold = await store.credentials.acquire("login", "one", MINUTE);
			await store.credentials.save(hold, "newer");
			await store.credentials.release(hold);
			const restored = (from: string) =>
				fixture.tamper(
					`UPDATE credentials SET sealed = (SELECT sealed FROM kept WHERE label = '${from}') WHERE label = 'login'`,
				);
			const refused = async () => {
				const trying = store.credentials.acquire("login", "two", MINUTE);
				await expect(trying).rejects.toMatchObject({ code: "secret_unreadable" });
				expect((await store.credentials.find("login"))?.holders).toEqual([]);
			};
			await restored("login");
			await refused();
			await restored("team-openai");
			await refused();
			await fixture.tamper("UPDATE credentials SET sealed = substr(sealed, 1, 40)");
			await refused();
		});

		test("a whole row that was put back to an earlier day is refused where the later one was seen", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await store.credentials.add(LOGIN);
			await fixture.tamper("CREATE TABLE kept AS SELECT * FROM credentials");
			const hold = await store.credentials.acquire("login", "one", MINUTE);
			await store.credentials.save(hold, "newer");
			await fixture.tamper("DELETE FROM credentials");
			await fixture.tamper("INSERT INTO credentials SELECT * FROM kept");
			await using other = await fixture.open();
			await expect(other.credentials.acquire("login", "two", MINUTE)).rejects.toMatchObject({
				code: "secret_unreadable",
				message: expect.stringContaining("rolled back"),
			});
			expect((await other.credentials.find("login"))?.holders).toEqual([]);
			await other.credentials.remove("login", { force: false });
			await other.credentials.add(LOGIN);
			expect((await other.credentials.acquire("login", "two", MINUTE)).secret).toBe(CANARY);
		});

		test("a heartbeat never makes a hold shorter; who made it long may make it short again", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await store.credentials.add(LOGIN);
			const hold = await store.credentials.acquire("login", "one", MINUTE);
			const end = async () => (await store.credentials.find("login"))!.holders[0]!.expiresAt;
			const before = await end();
			await store.credentials.renew(hold, 1);
			expect(await end()).toBe(before);
			await store.credentials.renew(hold, 10 * MINUTE);
			expect(await end()).toBeGreaterThan(before);
			await store.credentials.renew(hold, MINUTE / 2, { exact: true });
			expect(await end()).toBeLessThan(before);
			await store.credentials.renew(hold, 0, { exact: true });
			expect((await store.credentials.acquire("login", "two", MINUTE)).fence).toBe(2);
		});

		test("a verdict is its holder's: a late one changes nothing, and the third doubtful one is death", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { credentials } = store;
			await credentials.add(LOGIN);
			const late = await credentials.acquire("login", "late", 0);
			const next = await credentials.acquire("login", "next", MINUTE);
			await credentials.judge(late, { state: "dead", reason: "refused", isDoubtful: false });
			expect((await credentials.find("login"))!.state).toBe("unknown");
			const doubt = { state: "unknown", reason: "403", isDoubtful: true } as const;
			for (const state of ["unknown", "unknown"]) {
				await credentials.judge(next, doubt);
				expect((await credentials.find("login"))!.state).toBe(state);
			}
			await credentials.judge(next, doubt);
			expect(await credentials.find("login")).toMatchObject({ state: "dead", reason: "403" });
			await credentials.release(next);
			await expect(credentials.acquire("login", "x", MINUTE)).rejects.toMatchObject({
				code: "credential_dead",
			});
			const probe = await credentials.acquire("login", "probe", MINUTE, { evenDead: true });
			await credentials.judge(probe, { state: "alive", reason: null, isDoubtful: false });
			expect(await credentials.find("login")).toMatchObject({ state: "alive", reason: null });
		});

		test("what its holder may no longer save is put aside sealed: nobody uses either before somebody has looked", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			await one.credentials.add(LOGIN);
			const late = await one.credentials.acquire("login", "late", 0);
			const next = await two.credentials.acquire("login", "next", 0);
			await one.credentials.quarantine(late, `aside-${CANARY}`, "the hold was lost");
			const found = (await two.credentials.find("login"))!;
			expect(found).toMatchObject({
				...{ state: "quarantined", reason: "the hold was lost", version: 1 },
				quarantine: [{ fence: late.fence, reason: "the hold was lost", fingerprint: expect.any(String) }],
			});
			expect(JSON.stringify(found)).not.toMatch(/canary|sealed/);
			expect(await fixture.holds(CANARY)).toBe(false);
			await expect(one.credentials.acquire("login", "x", MINUTE)).rejects.toMatchObject({
				code: "credential_quarantined",
			});
			// An outage says nothing of it, and frees nothing.
			const probe = await two.credentials.acquire("login", "probe", MINUTE, { evenDead: true });
			await two.credentials.judge(probe, { state: "unknown", reason: "away", isDoubtful: false });
			expect((await one.credentials.find("login"))!.state).toBe("quarantined");
			await one.rotateKey();
			const promoted = (await two.credentials.promote(probe))!;
			expect(promoted).toMatchObject({
				secret: `aside-${CANARY}`,
				credential: { version: 2, quarantine: [] },
			});
			expect(await two.credentials.promote(promoted)).toBeNull();
			expect(await one.credentials.promote(next)).toBeNull();
			await two.credentials.judge(promoted, { state: "alive", reason: null, isDoubtful: false });
			await two.credentials.release(promoted);
			expect((await one.credentials.acquire("login", "x", MINUTE)).secret).toBe(`aside-${CANARY}`);
		});

		test("one that has newer tokens than what was put aside stays in use; freed, it forgets what was put aside", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { credentials } = store;
			await credentials.add(LOGIN);
			const late = await credentials.acquire("login", "late", 0);
			const next = await credentials.acquire("login", "next", MINUTE);
			await credentials.save(next, "newer");
			for (const secret of ["one", "two", "two", "three", "four", "five", "six"])
				await credentials.quarantine(late, `aside ${secret}`, "the hold was lost");
			const found = (await credentials.find("login"))!;
			expect(found.state).toBe("unknown");
			expect(found.quarantine).toHaveLength(5);
			await expect(credentials.free("login")).rejects.toMatchObject({ code: "credential_held" });
			await credentials.release(next);
			expect(await credentials.free("login")).toBe(true);
			expect(await credentials.find("login")).toMatchObject({ quarantine: [], state: "unknown" });
			expect((await credentials.acquire("login", "x", MINUTE)).secret).toBe("newer");
			expect(await credentials.free("nobody")).toBe(false);
		});

		test("one in use is removed only by force, and then its holder can save nothing more", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await store.credentials.add(LOGIN);
			const hold = await store.credentials.acquire("login", "one", MINUTE);
			const { credentials } = store;
			await expect(credentials.remove("login", { force: false })).rejects.toMatchObject({
				code: "credential_held",
			});
			expect(await credentials.remove("login", { force: true })).toBe(true);
			expect(await credentials.remove("login", { force: true })).toBe(false);
			expect(await credentials.save(hold, "late")).toBeNull();
			expect(await credentials.renew(hold, MINUTE)).toBe(false);
			await expect(credentials.acquire("login", "two", MINUTE)).rejects.toMatchObject({
				code: "unknown_credential",
			});
			expect(await credentials.list()).toEqual([]);
		});

		test("a new master key costs no credential, whoever has the store open", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			await one.credentials.add(LOGIN);
			await one.rotateKey();
			await two.credentials.add(KEY);
			for (const store of [one, two, await fixture.open()]) {
				const hold = await store.credentials.acquire("login", "one", MINUTE);
				expect(hold.secret).toBe(CANARY);
				await store.credentials.release(hold);
				expect((await store.credentials.acquire(KEY.label, "one", 0)).secret).toBe(KEY.secret);
				await store[Symbol.asyncDispose]();
			}
		});
	});
}

/** The lowest bit of one byte of the login's sealed secret. */
async function flipBit({ address, tamper }: RestingFixture, place: number): Promise<void> {
	if (address.type === "postgres")
		return await tamper(
			`UPDATE credentials SET sealed = set_byte(sealed, ${place}, get_byte(sealed, ${place}) # 1)`,
		);
	using database = new DatabaseSync(join(address.home, "paddock.db"));
	const { sealed } = database.prepare("SELECT sealed FROM credentials").get() as { sealed: Uint8Array };
	sealed[place]! ^= 1;
	database.prepare("UPDATE credentials SET sealed = ?").run(sealed);
}
