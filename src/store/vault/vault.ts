import { UsageError } from "../../errors.ts";
import { type KeyFile, makeKey, nextOf, putInPlace, readKey } from "./key-file.ts";
import { keyIdOf, SealingKey } from "./seal.ts";

/** The keys of a store as they rest in its database, each sealed by the master key, by name. */
export interface KeyRows {
	all(): Promise<Map<string, Uint8Array>>;
	put(name: string, wrapped: Uint8Array): Promise<void>;
}

/** Hands the rows to one process at a time; all that it changes is kept, or nothing. */
export type WithKeys = <T>(change: (keys: KeyRows) => Promise<T>) => Promise<T>;

/** Seals what rollouts bring. */
const STORE = "store";

/**
 * What seals a store's secrets. Each is sealed with a key of its own kind, and those keys rest in the database, sealed
 * by the master key, which lies in a file apart: another master key means sealing a few keys anew and nothing else.
 */
export class Vault {
	readonly #file: KeyFile;
	readonly #withKeys: WithKeys;
	readonly #known = new Map<string, SealingKey>();
	#master: SealingKey;
	/** For what rollouts bring: their callers' keys, and the fingerprints of submissions. */
	readonly store: SealingKey;

	private constructor(file: KeyFile, withKeys: WithKeys, master: SealingKey, store: SealingKey) {
		this.#file = file;
		this.#withKeys = withKeys;
		this.#master = master;
		this.store = store;
	}

	/** The first one on a database makes its keys; whoever has another master key is refused, and makes none. */
	static open(file: KeyFile, withKeys: WithKeys): Promise<Vault> {
		return withKeys(async (keys) => {
			const wrapped = (await keys.all()).get(STORE);
			const master = await masterOf(file, wrapped);
			const store = wrapped ? SealingKey.unwrap(wrapped, master, STORE) : SealingKey.random();
			if (!wrapped) await keys.put(STORE, store.wrappedBy(master, STORE));
			return new Vault(file, withKeys, master, store);
		});
	}

	/** A key for one thing alone, made at the first asking. */
	async keyOf(name: string): Promise<SealingKey> {
		const key = this.#known.get(name) ?? (await this.#read(name));
		this.#known.set(name, key);
		return key;
	}

	/**
	 * Seals all keys with a new master key, which then takes the old one's place. Whenever it is interrupted, nothing is
	 * lost: the new key lies beside the old one until both the database and the file have changed over.
	 */
	async rotate(): Promise<void> {
		const file = this.#file;
		this.#master = await this.#withKeys(async (keys) => {
			const rows = await keys.all();
			const old = await masterOf(file, rows.get(STORE));
			const next = (await readKey(nextOf(file))) ?? (await makeKey(nextOf(file)));
			for (const [name, wrapped] of rows) {
				await keys.put(name, SealingKey.unwrap(wrapped, old, name).wrappedBy(next, name));
			}
			return next;
		});
		await putInPlace(file);
	}

	#read(name: string): Promise<SealingKey> {
		return this.#withKeys(async (keys) => {
			const rows = await keys.all();
			// Another process may have rotated the master key since.
			if (keyIdOf(rows.get(STORE)!) !== this.#master.id) {
				this.#master = await masterOf(this.#file, rows.get(STORE));
			}
			const wrapped = rows.get(name);
			if (wrapped) return SealingKey.unwrap(wrapped, this.#master, name);
			const key = SealingKey.random();
			await keys.put(name, key.wrappedBy(this.#master, name));
			return key;
		});
	}
}

/** The key that sealed what is in the database: the file's, or the one with which a rotation was interrupted. */
async function masterOf(file: KeyFile, wrapped: Uint8Array | undefined): Promise<SealingKey> {
	const key = await readKey(file);
	if (wrapped === undefined) {
		if (key !== null) return key;
		if (!file.isNamed) return await makeKey(file);
		throw new UsageError(
			`${file.path} is missing: make it with \`head -c 32 /dev/urandom\`, for its owner alone (chmod 600).`,
			"bad_key_file",
		);
	}
	const sealedBy = keyIdOf(wrapped);
	if (key?.id === sealedBy) return key;
	const next = await readKey(nextOf(file));
	if (next !== null && next.id === sealedBy) {
		await putInPlace(file);
		return next;
	}
	const trouble = key === null ? "is missing" : "is another key than this database was made with";
	throw new UsageError(
		`${file.path} ${trouble}: copy the key file (secret.key, or what PADDOCK_MASTER_KEY_FILE names) from a machine that uses the database.`,
		"bad_key_file",
	);
}
