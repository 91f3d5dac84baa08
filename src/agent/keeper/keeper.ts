import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { messageOf, RolloutError } from "../../errors.ts";
import { ownPermissions, serverEnvironment } from "../opencode-config.ts";
import { openServeConversation } from "../serve/attach.ts";
import type { ServeConversation, ServeConversationOptions } from "../serve/conversation.ts";
import { SERVE_TIMES } from "../serve/times.ts";
import { CrashGuard } from "./crash-guard.ts";
import { type KeptProvider, writeHome } from "./home.ts";
import { type Launched, type LaunchOptions, launch, type ServerEnd } from "./launch.ts";
import { LogFile } from "./log-file.ts";
import { isSame, withVariable } from "./processes.ts";
import { KEEPER_TIMES, type KeeperTimes, Readiness } from "./readiness.ts";
import { forgetServer, recallServer, rememberServer, startingServer } from "./server-record.ts";
import { signal } from "./signals.ts";

export interface KeeperOptions {
	/** A folder of its own: configuration, database and log of the server. Its user can read all of it, nobody else can. */
	home: string;
	/** Absolute. */
	binary: string;
	/** Words between the program and its `serve`, for one that has OpenCode serve somewhere else. */
	before?: readonly string[];
	/** Never empty: without one anybody on this machine could drive the agent. Not written anywhere. */
	password: string;
	provider: KeptProvider;
	/** 0 for any free one. */
	port?: number;
	/** On top of everything; nothing of our own environment is handed on but what `INHERITED` names. */
	env?: Record<string, string>;
	permission?: Parameters<typeof ownPermissions>[0];
	times?: Partial<KeeperTimes>;
	maxLogBytes?: number;
}

const INHERITED = ["PATH", "LANG", "LC_ALL", "TZ"];
const MARK = "PADDOCK_SERVER_MARK";

export type KeeperState = "stopped" | "starting" | "running" | "failed";

/** How often nothing has to be found, 20 ms apart, before nothing is there. */
const UNBORN_LOOKS = 25;

/**
 * Keeps one healthy `opencode serve` on this machine, outside any box. Knows nothing of turns. At most one server lives per home, and
 * no path leaves one behind, or anything it started.
 */
export class ServeKeeper implements AsyncDisposable {
	readonly #options: KeeperOptions;
	readonly #times: KeeperTimes;
	readonly #crashes: CrashGuard;
	#provider: KeptProvider;
	#state: KeeperState = "stopped";
	#server: Launched | null = null;
	#needsRestart = false;
	#ensuring: Promise<{ baseUrl: string }> | null = null;
	#stopping: Promise<void> | null = null;
	#stopAsked = new AbortController();
	#readiness: Readiness;

	constructor(options: KeeperOptions) {
		if (options.password.length < 16)
			throw new RolloutError(
				"agent",
				"agent_boot_failed",
				"a kept server needs a password of at least 16 characters",
			);
		this.#options = options;
		this.#times = { ...KEEPER_TIMES, ...options.times };
		this.#provider = options.provider;
		this.#crashes = new CrashGuard(this.#times.now);
		this.#readiness = this.#newReadiness();
	}

	get state(): KeeperState {
		return this.#state;
	}

	get isRunning(): boolean {
		return this.#state === "running";
	}

	get baseUrl(): string | null {
		return this.isRunning ? (this.#server?.baseUrl ?? null) : null;
	}

	/** Its configuration was changed since it started. */
	get needsRestart(): boolean {
		return this.#needsRestart;
	}

	/** Resolves when the server that runs now has ended; null while none does. */
	get ended(): Promise<ServerEnd> | null {
		return this.#server?.ended ?? null;
	}

	get logPath(): string {
		return join(this.#options.home, "serve.log");
	}

	/** However many ask at once, one server is started; a healthy one is left as it is. */
	ensureRunning(): Promise<{ baseUrl: string }> {
		this.#ensuring ??= this.#ensure().finally(() => {
			this.#ensuring = null;
		});
		return this.#ensuring;
	}

	/** A conversation with the server, started if need be; it closes when the server ends. */
	async open(options: ServeConversationOptions): Promise<ServeConversation> {
		const { baseUrl: url } = await this.ensureRunning();
		const serverEnded = this.#server?.ended;
		const { password } = this.#options;
		return await openServeConversation({
			...(serverEnded ? { serverEnded } : {}),
			...options,
			url,
			password,
		});
	}

	/** Other models or another key; a running server takes them at its next start. */
	async configure(provider: KeptProvider): Promise<void> {
		this.#provider = provider;
		if ((await writeHome(this.#options.home, provider)) && this.#server !== null) this.#needsRestart = true;
	}

	/** Safe at any time, also twice at once and during a start. Leaves no process behind. */
	stop(): Promise<void> {
		this.#stopping ??= this.#stop().finally(() => {
			this.#stopping = null;
		});
		return this.#stopping;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.stop();
	}

	async #ensure(): Promise<{ baseUrl: string }> {
		// Without a pause, unless there is something to wait for: a stop that follows must find the start that it stops.
		if (this.#stopping !== null) await this.#stopping;
		this.#stopAsked = new AbortController();
		this.#readiness = this.#newReadiness();
		const deadline = this.#times.now() + this.#times.readyMs;
		const current = this.#server ?? (await this.#adopt());
		if (current !== null && (await this.#readiness.isHealthyInTheEnd(current, deadline)))
			return { baseUrl: current.baseUrl };
		if (current !== null) await this.#reap(current);
		try {
			return { baseUrl: (await this.#start(deadline)).baseUrl };
		} catch (error) {
			this.#state = this.#stopAsked.signal.aborted ? "stopped" : "failed";
			throw error;
		}
	}

	/** A server that an earlier process of ours left running; whether it takes our password is asked as of any other. */
	async #adopt(): Promise<Launched | null> {
		const server = await this.#recall();
		if (server === null) return null;
		if (await server.isAlive()) {
			this.#server = server;
			this.#state = "running";
			server.log.keepSmall();
			void this.#watch(server);
			return server;
		}
		await this.#reap(server);
		return null;
	}

	async #start(deadline: number): Promise<Launched> {
		const { home, binary, before = [], password, port = 0, maxLogBytes } = this.#options;
		this.#state = "starting";
		await this.#crashes.wait((ms) => this.#times.sleep(ms, this.#stopAsked.signal), deadline);
		await writeHome(home, this.#provider);
		this.#needsRestart = false;
		const mark = randomBytes(12).toString("hex");
		const log = await LogFile.open(this.logPath, maxLogBytes);
		const server = await this.#launch({
			binary,
			before,
			home,
			port,
			env: this.#environment(mark),
			log,
			mark,
		});
		this.#server = server;
		try {
			await rememberServer(home, server);
			await this.#readiness.untilListening(server, deadline);
			await rememberServer(home, server);
			await this.#readiness.untilHealthy(server, deadline);
			await this.#readiness.requireOurs(server);
		} catch (error) {
			const said = this.#hide(await log.tail().catch(() => ""));
			// One that was told to end has not crashed.
			if (!this.#stopAsked.signal.aborted) this.#crashes.crashed();
			await this.#reap(server);
			throw withLog(error, said, password);
		}
		this.#state = "running";
		void this.#watch(server);
		return server;
	}

	async #launch(options: LaunchOptions): Promise<Launched> {
		const { home, mark, log } = options;
		try {
			// Before it exists: whoever kills us from here on leaves something behind that can be found.
			await rememberServer(home, startingServer(mark));
			return await launch(options);
		} catch (error) {
			await log[Symbol.asyncDispose]();
			await forgetServer(home, { mark });
			throw error;
		}
	}

	/** One that ends without being told to has crashed; what it had started ends with it. */
	async #watch(server: Launched): Promise<void> {
		await server.ended;
		if (this.#server !== server || this.#stopAsked.signal.aborted) return;
		this.#crashes.crashed();
		this.#state = "stopped";
		await this.#reap(server);
	}

	async #stop(): Promise<void> {
		this.#stopAsked.abort();
		// A start that is under way ends its own server.
		await this.#ensuring?.catch(() => {});
		const server = this.#server ?? (await this.#recall());
		if (server !== null) await this.#reap(server);
		this.#state = "stopped";
	}

	async #recall(): Promise<Launched | null> {
		const record = await recallServer(this.#options.home);
		if (record === null) return null;
		const log = await LogFile.open(this.logPath, this.#options.maxLogBytes);
		const isAlive = async () => isSame(record);
		return { ...record, log, isAlive, whyEnded: () => "it ended", ended: this.#untilDead(isAlive) };
	}

	/** Somebody else's child cannot be waited for, only looked at. */
	async #untilDead(isAlive: () => Promise<boolean>): Promise<ServerEnd> {
		// Looking on is no reason to stay.
		while (await isAlive()) await SERVE_TIMES.sleep(this.#times.pollMs, NEVER);
		return { exitCode: null, signal: null };
	}

	/** The whole group, then whatever went off into a group of its own. */
	async #reap(server: Launched): Promise<void> {
		const { now, sleep, termMs } = this.#times;
		if (await server.isAlive()) signal(server.pid, "SIGTERM", { group: true });
		const until = now() + termMs;
		while ((await server.isAlive()) && now() < until) await sleep(20, NEVER);
		if (await server.isAlive()) signal(server.pid, "SIGKILL", { group: true });
		while (await server.isAlive()) await sleep(20, NEVER);
		await this.#sweep(server);
		await forgetServer(this.#options.home, server);
		await server.log[Symbol.asyncDispose]();
		if (this.#server === server) this.#server = null;
	}

	async #sweep({ mark, pid: known }: Launched): Promise<void> {
		// A keeper that was killed while it started one may have left a process that has not begun its program: it bears no mark yet.
		let quiet = known === 0 ? UNBORN_LOOKS : 1;
		while (quiet > 0) {
			const pids = await withVariable(`${MARK}=${mark}`);
			for (const pid of pids) signal(pid, "SIGKILL");
			if (pids.length === 0) quiet -= 1;
			// What is being killed may just have started another.
			if (quiet > 0) await this.#times.sleep(20, NEVER);
		}
	}

	#environment(mark: string): Record<string, string> {
		const { home, password, permission, env = {} } = this.#options;
		const inherited = INHERITED.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []));
		return {
			...Object.fromEntries(inherited),
			...serverEnvironment(home, password),
			TMPDIR: join(home, "tmp"),
			OPENCODE_DB: join(home, "data", "opencode.db"),
			...(permission === undefined
				? {}
				: { OPENCODE_PERMISSION: JSON.stringify(ownPermissions(permission)) }),
			...env,
			[MARK]: mark,
		};
	}

	#newReadiness(): Readiness {
		return new Readiness(this.#times, this.#options, this.#stopAsked.signal);
	}

	#hide(text: string): string {
		return text.replaceAll(this.#options.password, "[hidden]").replaceAll(this.#provider.apiKey, "[hidden]");
	}
}

const LOG_LINES = 40;
const NEVER = new AbortController().signal;

function withLog(error: unknown, said: string, password: string): RolloutError {
	const lines = said.trim().split("\n").slice(-LOG_LINES).join("\n");
	const message = messageOf(error).replaceAll(password, "[hidden]");
	const { code, retryable } =
		error instanceof RolloutError ? error : { code: "agent_boot_failed", retryable: true };
	return new RolloutError("agent", code, lines === "" ? message : `${message}\n${lines}`, {
		retryable,
		cause: error,
	});
}
