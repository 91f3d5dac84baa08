import { randomBytes } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { UsageError } from "../errors.ts";
import { Host, HostName } from "../model/host.ts";
import { parseTarget } from "./ssh/address.ts";

const HostFile = z.strictObject({ version: z.literal(1), hosts: z.array(Host) });

/** The machines that this one knows, in a file of the data folder: keys and known hosts are a machine's own affair. */
export class Hosts {
	readonly #home: string;

	constructor(home: string) {
		this.#home = home;
	}

	async list(): Promise<Host[]> {
		let text: string;
		try {
			text = await readFile(this.#path, "utf8");
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
			throw error;
		}
		const parsed = HostFile.safeParse(parse(text));
		if (parsed.success) return parsed.data.hosts;
		throw new UsageError(`${this.#path} is no list of hosts: mend or remove it`, "bad_hosts_file");
	}

	async find(name: string): Promise<Host> {
		const found = (await this.list()).find((host) => host.name === name);
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
		parseTarget(host.address);
		const hosts = await this.list();
		if (hosts.some(({ name }) => name === host.name))
			throw new UsageError(`there is a host ${host.name} already: remove it first`, "host_exists");
		await this.#write([...hosts, host]);
	}

	async change(name: string, change: Partial<Host>): Promise<void> {
		const hosts = await this.list();
		await this.#write(hosts.map((host) => (host.name === name ? { ...host, ...change } : host)));
	}

	async remove(name: string): Promise<void> {
		await this.find(name);
		await this.#write((await this.list()).filter((host) => host.name !== name));
	}

	get #path(): string {
		return join(this.#home, "hosts.json");
	}

	async #write(hosts: Host[]): Promise<void> {
		await mkdir(this.#home, { recursive: true, mode: 0o700 });
		const draft = `${this.#path}.${randomBytes(6).toString("hex")}`;
		await writeFile(draft, JSON.stringify({ version: 1, hosts }, null, "\t"), { mode: 0o600, flag: "wx" });
		await rename(draft, this.#path);
	}
}

function parse(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return null;
	}
}
