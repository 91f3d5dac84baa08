import { randomBytes } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { UsageError } from "../../errors.ts";

/**
 * The newest version of each secret that this machine has seen, in files beside the database. A database that was put back
 * to an earlier day is whole and opens: only who remembers can tell that its tokens were spent long ago.
 */
export class SeenVersions {
	readonly #folder: string;

	constructor(home: string) {
		this.#folder = join(home, "seen");
	}

	/** Refuses what is older than what was seen; remembers what is newer. */
	async check(id: string, version: number): Promise<void> {
		const seen = await this.#read(id);
		if (version < seen)
			throw new UsageError(
				`A stored secret was rolled back: this machine has seen its version ${seen}, the database has ${version}.`,
				"secret_unreadable",
			);
		if (version > seen && version > 1) await this.#write(id, version);
	}

	async forget(id: string): Promise<void> {
		await rm(this.#path(id), { force: true });
	}

	async #read(id: string): Promise<number> {
		try {
			return Number(await readFile(this.#path(id), "utf8"));
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code === "ENOENT") return 0;
			throw error;
		}
	}

	async #write(id: string, version: number): Promise<void> {
		await mkdir(this.#folder, { recursive: true, mode: 0o700 });
		const draft = `${this.#path(id)}.${randomBytes(6).toString("hex")}`;
		await writeFile(draft, String(version), { mode: 0o600, flag: "wx" });
		await rename(draft, this.#path(id));
	}

	#path(id: string): string {
		return join(this.#folder, id);
	}
}
