import type { Config } from "./config.ts";
import { messageOf, UsageError } from "./errors.ts";
import { Hosts } from "./host/hosts.ts";
import type { Host } from "./model/host.ts";
import { SandboxBackend, SandboxName } from "./model/request.ts";
import { type BoxCeiling, withCeiling } from "./sandbox/ceiling.ts";
import type { Availability, Backend } from "./sandbox/sandbox.ts";

/** The sandbox backends of this machine, each opened when it is first asked for. */
export class Backends implements AsyncDisposable {
	readonly #env: Config["env"];
	readonly #warn: (message: string) => void;
	readonly #opened = new Map<string, Promise<Backend>>();
	readonly #stack = new AsyncDisposableStack();

	readonly #ceiling: BoxCeiling | null;
	readonly #hosts: Hosts;

	/** Without a ceiling only to ask what is there: boxes are opened by those who have one. */
	constructor(
		{ env, home }: Pick<Config, "env" | "home">,
		warn: (message: string) => void,
		ceiling: BoxCeiling | null = null,
	) {
		this.#env = env;
		this.#hosts = new Hosts(home);
		this.#warn = warn;
		this.#ceiling = ceiling;
	}

	/** A named machine is looked up each time: one that was removed, or has another agent since, is not used as it was. */
	async get(backend: string): Promise<Backend> {
		const name = SandboxName.safeParse(backend).success && /^ssh:(.+)$/.exec(backend)?.[1];
		const host = name ? await this.#hosts.find(name) : undefined;
		const key = host === undefined ? backend : `${backend} ${JSON.stringify(host)}`;
		const known = this.#opened.get(key);
		if (known) return known;
		const ceiling = this.#ceiling;
		const opening = this.#open(backend, host).then((opened) =>
			this.#stack.use(ceiling === null ? opened : withCeiling(opened, ceiling)),
		);
		this.#opened.set(key, opening);
		// What was missing may be there the next time.
		opening.catch(() => this.#opened.delete(key));
		return await opening;
	}

	/** A backend that cannot even be opened is one that is not available, and says why. */
	async availability(backend: string): Promise<Availability> {
		try {
			return await (await this.get(backend)).available();
		} catch (error) {
			return { ok: false, checks: [{ name: "open", ok: false, detail: messageOf(error) }] };
		}
	}

	async availabilities(): Promise<Record<string, Availability>> {
		const entries = SandboxBackend.options.map(
			async (name) => [name, await this.availability(name)] as const,
		);
		return Object.fromEntries(await Promise.all(entries));
	}

	/** Destroys what dead owners left behind, in the backends that are in use, and says how many boxes that were. */
	async reap(): Promise<number> {
		let reaped = 0;
		for (const [key, opening] of this.#opened) {
			try {
				reaped += await (await opening).reap();
			} catch (error) {
				this.#warn(`could not clean up old ${key.split(" ")[0]} boxes: ${messageOf(error)}`);
			}
		}
		return reaped;
	}

	[Symbol.asyncDispose](): Promise<void> {
		return this.#stack.disposeAsync();
	}

	/** Each backend brings its own library; only what is used is loaded. */
	async #open(backend: string, host: Host | undefined): Promise<Backend> {
		const [env, warn] = [this.#env, this.#warn];
		switch (host === undefined ? SandboxBackend.safeParse(backend).data : "ssh") {
			case "local":
				return await (await import("./sandbox/local/local.ts")).openLocalBackend();
			case "docker":
				return await (await import("./sandbox/docker/docker.ts")).openDockerBackend({ env });
			case "ssh":
				return await (await import("./sandbox/ssh/ssh.ts")).openSshBackend({ env, warn, host });
			case "e2b":
				return await (await import("./sandbox/e2b/e2b.ts")).openE2bBackend({ env, warn });
			case "process":
				return await (await import("./sandbox/process/process.ts")).openProcessBackend({ warn });
			default:
				throw new UsageError(
					`the sandbox ${JSON.stringify(backend)} is not available here`,
					"unknown_sandbox",
				);
		}
	}
}
