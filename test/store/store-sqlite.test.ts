import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { running } from "./conformance.ts";
import { agentConformance } from "./conformance-agents.ts";
import { conversationConformance } from "./conformance-conversations.ts";
import { credentialConformance } from "./conformance-credentials.ts";
import { dataConformance } from "./conformance-data.ts";
import { eventConformance } from "./conformance-events.ts";
import { rolloutConformance } from "./conformance-rollouts.ts";
import { type RestingFixture, taskConformance } from "./conformance-tasks.ts";
import { vaultConformance } from "./conformance-vault.ts";

async function openFixture(): Promise<RestingFixture> {
	const home = await mkdtemp(join(tmpdir(), "paddock-store-"));
	return {
		address: { type: "sqlite", home },
		open: (options) => openSqliteStore({ home, ...options }),
		holds: (words) => grep(words, home),
		sizeBytes: async () => {
			const entries = (await readdir(home)).map((entry) => stat(join(home, entry)));
			return (await Promise.all(entries)).reduce((sum, { size }) => sum + size, 0);
		},
		tamper: async (sql) => changeDatabase(home, sql),
		setVersion: async (version) => changeDatabase(home, `PRAGMA user_version = ${version}`),
		[Symbol.asyncDispose]: () => rm(home, { recursive: true }),
	};
}

rolloutConformance("the embedded store", openFixture);
conversationConformance("the embedded store", openFixture);
eventConformance("the embedded store", openFixture);
dataConformance("the embedded store", openFixture);
taskConformance("the embedded store", openFixture);
vaultConformance("the embedded store", openFixture);
credentialConformance("the embedded store", openFixture);
agentConformance("the embedded store", openFixture);

test("everything the embedded store makes is for its owner alone", async () => {
	await using fixture = await openFixture();
	await using store = await fixture.open();
	const { id } = await running(store);
	await store.appendTrace(id, 1, Buffer.from("x"));
	await store.putBlob(id, 0, "agent.log", Buffer.from("x"));
	const entries = await readdir(fixture.address.home, { recursive: true });
	expect(entries).toContain("secret.key");
	expect(entries).toContain("paddock.db-wal");
	for (const entry of entries) {
		const { mode } = await stat(join(fixture.address.home, entry));
		expect(`${entry} ${(mode & 0o077).toString(8)}`).toBe(`${entry} 0`);
	}
});

test("a home that cannot be a folder is refused with a sentence that says what to do", async () => {
	await using fixture = await openFixture();
	const home = join(fixture.address.home, "a-file");
	await writeFile(home, "");
	await expect(openSqliteStore({ home })).rejects.toThrow(/cannot be used.*PADDOCK_HOME/);
});

test("a store whose key file is gone is refused, and no new one is made in its place", async () => {
	await using fixture = await openFixture();
	await (await fixture.open())[Symbol.asyncDispose]();
	const keyFile = join(fixture.address.home, "secret.key");
	await rm(keyFile);
	await expect(fixture.open()).rejects.toMatchObject({ code: "bad_key_file" });
	await expect(stat(keyFile)).rejects.toMatchObject({ code: "ENOENT" });
});

function changeDatabase(home: string, sql: string): void {
	const database = new DatabaseSync(join(home, "paddock.db"));
	database.exec(sql);
	database.close();
}

async function grep(words: string, folder: string): Promise<boolean> {
	const search = promisify(execFile)("grep", ["-r", "-l", "-a", "-F", "--", words, folder]);
	return search.then(
		() => true,
		(error: { code?: number }) => {
			if (error.code === 1) return false;
			throw error;
		},
	);
}
