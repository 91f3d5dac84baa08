import { access, constants, mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, UsageError } from "../../errors.ts";
import { Announcer } from "../announcer.ts";
import { FolderBytes } from "../bytes/folder-bytes.ts";
import { DatabaseStore } from "../database-store.ts";
import type { Store } from "../store.ts";
import { keyFileIn } from "../vault/key-file.ts";
import { SeenVersions } from "../vault/seen.ts";
import { Vault } from "../vault/vault.ts";
import { SqliteDatabase } from "./database.ts";

export interface SqliteStoreOptions {
	/** Everything lies below this folder; several processes may open it at once. */
	home: string;
	/** The master key, which seals all others; `<home>/secret.key`, made when it is missing, unless given. */
	keyFile?: string | undefined;
}

/** The embedded store: one SQLite file, trace logs and blobs as files beside it, all for the owner alone. */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
	const { home } = options;
	await prepareHome(home);
	const bytes = await FolderBytes.open(home);
	const file = join(home, "paddock.db");
	// SQLite gives its side files the mode of the main one.
	await (await open(file, "a", 0o600)).close();
	const announcer = new Announcer();
	const database = new SqliteDatabase(file, announcer);
	try {
		const vault = await Vault.open(keyFileIn(home, options.keyFile), database.withKeys);
		return new DatabaseStore({ database, announcer, vault, seen: new SeenVersions(home), bytes });
	} catch (error) {
		await database[Symbol.asyncDispose]();
		throw error;
	}
}

async function prepareHome(home: string): Promise<void> {
	try {
		await mkdir(home, { recursive: true, mode: 0o700 });
		await access(home, constants.R_OK | constants.W_OK | constants.X_OK);
	} catch (cause) {
		const message = `${home} cannot be used: ${messageOf(cause)}. Choose another folder with PADDOCK_HOME.`;
		throw Object.assign(new UsageError(message, "home_unusable"), { cause });
	}
}
