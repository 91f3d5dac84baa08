import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AUTH_FILE, CONFIG_FILE, readLogin, writeLogin } from "../../../src/credential/login.ts";
import type { NewCredential } from "../../../src/store/credentials.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../../src/store/store.ts";

export const CONFIG = JSON.stringify({ model: "acme/large", theme: "dark" });

/** An auth.json as the agent writes it after so many refreshes. */
export function authAfter(rotation: number, more: object = {}): Buffer {
	const entry = { type: "oauth", refresh: `refresh-token-${rotation}`, access: `access-token-${rotation}` };
	return Buffer.from(JSON.stringify({ acme: { ...entry, expires: rotation, accountId: "ada", ...more } }));
}

export function plantedLogin(label = "ada", more: Partial<NewCredential> = {}): NewCredential {
	const files = new Map([
		[AUTH_FILE, authAfter(0)],
		[CONFIG_FILE, Buffer.from(CONFIG)],
	]);
	return {
		...{ label, kind: "login", endpoint: null, capacity: 1, secret: writeLogin(files) },
		planted: { provider: "acme", model: "large", hosts: ["acme.example"] },
		...more,
	};
}

export interface PlantedStage extends AsyncDisposable {
	store: Store;
	/** The auth.json in the box; an error is a box that does not answer. */
	box: { auth: Buffer | null | Error };
	readAuth: () => Promise<Buffer | null>;
	/** How many refreshes the stored login has behind it. */
	storedRotation(label?: string): Promise<number>;
}

export async function openPlantedStage(): Promise<PlantedStage> {
	const home = await mkdtemp(join(tmpdir(), "paddock-planted-"));
	const store = await openSqliteStore({ home });
	await store.credentials.add(plantedLogin());
	const box: PlantedStage["box"] = { auth: authAfter(0) };
	return {
		store,
		box,
		async readAuth() {
			if (box.auth instanceof Error) throw box.auth;
			return box.auth;
		},
		async storedRotation(label = "ada") {
			const hold = await store.credentials.acquire(label, "look", 0, { evenDead: true });
			await store.credentials.release(hold);
			return JSON.parse(String(readLogin(hold.secret).get(AUTH_FILE))).acme.expires;
		},
		async [Symbol.asyncDispose]() {
			await store[Symbol.asyncDispose]();
			await rm(home, { recursive: true });
		},
	};
}
