import { randomBytes } from "node:crypto";
import { link, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { UsageError } from "../errors.ts";
import { Host, HostName } from "../model/host.ts";
import { addressOf } from "./ssh/address.ts";

const ENDING = ".json";

/**
 * The machines that this one knows, each in a file of its own in the data folder: whoever adds another changes nobody else's. Keys
 * and known hosts are a machine's own affair.
 */
export class Hosts {
	readonly #folder: string;

	constructor(home: string) {
		this.#folder = join(home, "hosts");
	}

	async list(): Promise<Host[]> {
		const files = await readdir(this.#folder).catch(missing);
		const names = (files ?? [])
			.filter((file) => file.endsWith(ENDING))
			.map((file) => file.slice(0, -ENDING.length));
		const hosts = await Promise.all(names.toSorted().map((name) => this.#read(name)));
		// One that was just removed.
		return hosts.filter((host) => host !== null);
	}

	async find(name: string): Promise<Host> {
		const found = HostName.safeParse(name).success ? await this.#read(name) : null;
		if (found) return found;
		throw new UsageError(`there is no host ${name}: see paddock host list`, "unknown_host");
	}

	async add(host: Host): Promise<void> {
		const parsed = HostName.safeParse(host.name);
		if (!parsed.success || host.name === "local")
			throw new UsageError(
				"a host's name is small letters, digits, dots, _ and -, and not local",
				"bad_host",
			);
		addressOf(host);
		await this.#write(host, async (draft, path) => {
			// Of two who add the same name one is first.
			await link(draft, path).catch((error) => {
				if (error.code !== "EEXIST") throw error;
				throw new UsageError(`there is a host ${host.name} already: remove it first`, "host_exists");
			});
			await rm(draft);
		});
	}

	async change(name: string, change: Partial<Host>): Promise<void> {
		await this.#write({ ...(await this.find(name)), ...change }, rename);
	}

	async remove(name: string): Promise<void> {
		await this.find(name);
		await rm(this.#path(name), { force: true });
	}

	#path(name: string): string {
		return join(this.#folder, `${name}${ENDING}`);
	}

	/** Null when there is none. */
	async #read(name: string): Promise<Host | null> {
		const text = await readFile(this.#path(name), "utf8").catch(missing);
		if (text === null) return null;
		const parsed = Host.safeParse(parse(text));
		if (parsed.success && parsed.data.name === name) return parsed.data;
		throw new UsageError(`${this.#path(name)} is no host: mend or remove it`, "bad_hosts_file");
	}

	/** Whole, or not at all. */
	async #write(host: Host, place: (draft: string, path: string) => Promise<void>): Promise<void> {
		await mkdir(this.#folder, { recursive: true, mode: 0o700 });
		const draft = join(this.#folder, `.${randomBytes(6).toString("hex")}`);
		await writeFile(draft, JSON.stringify(host, null, "\t"), { mode: 0o600, flag: "wx" });
		try {
			await place(draft, this.#path(host.name));
		} catch (error) {
			await rm(draft, { force: true });
			throw error;
		}
	}
}

function missing(error: NodeJS.ErrnoException): null {
	if (error.code === "ENOENT") return null;
	throw error;
}

function parse(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return null;
	}
}
