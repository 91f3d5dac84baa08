import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import {
	addressOf,
	describeAddress,
	optionOf,
	readAddress,
	type SshAddress,
} from "../../host/ssh/address.ts";
import { connectSsh, type SshConnection } from "../../host/ssh/connection.ts";
import { requireWalls } from "../../host/ssh/survey.ts";
import type { Host } from "../../model/host.ts";
import { BoxSpec, HOME } from "../../model/task.ts";
import { lookInTurn } from "../availability.ts";
import { openBox } from "../box/box.ts";
import { AGENT_PATH } from "../box/launch.ts";
import { OpenBoxes } from "../box/open-boxes.ts";
import { Egress } from "../egress/egress.ts";
import { dropLease, type Lease, reapLeases, takeLease } from "../lease/lease.ts";
import { defaultRunRoot } from "../lease/run-root.ts";
import { type Availability, type Backend, type OpenOptions, refuseFolder, type Sandbox } from "../sandbox.ts";
import { endRemoteBox } from "./orphans.ts";
import { prepareRemote, type Remote } from "./remote.ts";
import { type BoxPlan, startRemoteBox } from "./ssh-box.ts";

export interface SshOptions {
	/** The PADDOCK_SSH_… variables are read from here. */
	env: Record<string, string | undefined>;
	warn: (message: string) => void;
	/** A machine that was given a name; else the one of the variables. */
	host?: Host | undefined;
	runRoot?: string;
	agentBinary?: string;
}

/** Boxes on another Linux machine, by key. */
export async function openSshBackend(options: SshOptions): Promise<Backend> {
	const { host, env } = options;
	return new SshBackend(options, host ? addressOf(host) : readAddress(env));
}

class SshBackend implements Backend {
	readonly name = "ssh";
	readonly #options: SshOptions;
	readonly #address: SshAddress;
	readonly #leases: string;
	readonly #open = new OpenBoxes();
	#remote: Promise<Remote> | null = null;

	constructor(options: SshOptions, address: SshAddress) {
		this.#options = options;
		this.#address = address;
		const host = createHash("sha256").update(describeAddress(address)).digest("hex").slice(0, 12);
		this.#leases = join(options.runRoot ?? defaultRunRoot(), `ssh-leases-${host}`);
	}

	available(): Promise<Availability> {
		const login =
			this.#address.name === null ? "PADDOCK_SSH_HOST, PADDOCK_SSH_KEY_FILE" : "its address, its key file";
		return lookInTurn([
			{
				name: "login",
				fix: `check ${login} and the host's key`,
				look: async () => {
					await using _connection = await connectSsh(this.#address);
					return describeAddress(this.#address);
				},
			},
			{
				name: "machine",
				fix: "install bash, tar, git, ripgrep and bubblewrap there",
				look: async () => {
					const { system, bwrap } = await this.#prepare();
					return `${system}, ${bwrap ? "bubblewrap works" : "no bubblewrap"}`;
				},
			},
			{
				name: "opens a box",
				fix: `install bubblewrap 0.8 or newer there, or ${optionOf(this.#address, "allowPlain")}`,
				look: async () => {
					const spec = BoxSpec.parse({ diskMb: 16 });
					await using box = await this.open({ spec, onGateway: (connection) => connection.destroy() });
					return String(box.facts.isolation);
				},
			},
		]);
	}

	async open(options: OpenOptions): Promise<Sandbox> {
		refuseFolder(this.name, options);
		options.signal?.throwIfAborted();
		const { spec, role = "agent" } = options;
		const remote = await orAborted(this.#prepare(), options.signal);
		this.#requireWalls(remote);
		const boxId = `box-${randomBytes(6).toString("hex")}`;
		const folder = `${remote.cache}/boxes/${boxId}`;
		const cgroup = { version: "none" as const, folders: [], note: "on another machine" };
		const describe = async () => ({ boxId, runDirectory: folder, cgroup });
		const { path } = await takeLease(this.#leases, false, describe);
		const egress = spec.network === "none" || !remote.bwrap ? null : new Egress({ network: spec.network });
		const plan: BoxPlan = { boxId, folder, remote, spec, gateway: role === "agent", egress: egress !== null };
		let connection: SshConnection | null = null;
		const box = await openBox({
			id: boxId,
			backend: this.name,
			home: remote.bwrap ? HOME : `${folder}/home`,
			agentBinary: remote.bwrap ? AGENT_PATH : remote.staged.agent,
			runDirectory: null,
			signal: options.signal,
			onGateway: role === "agent" ? (duplex) => options.onGateway(duplex, boxId) : null,
			onEgress: egress === null ? undefined : (duplex) => egress.accept(duplex),
			launch: async (doors) => {
				connection = await connectSsh(this.#address);
				const facts = { host: this.#address.host, networkAsked: egress?.asked ?? [] };
				return startRemoteBox(connection, plan, doors, facts);
			},
			release: async () => {
				await egress?.[Symbol.asyncDispose]();
				await connection?.[Symbol.asyncDispose]();
				await dropLease(path);
			},
		});
		return this.#open.add(box);
	}

	/** The other machine's guardians end their boxes when we fall silent; this is for those that could not. */
	async reap(): Promise<number> {
		await using stack = new AsyncDisposableStack();
		let connection: Promise<SshConnection> | null = null;
		return await reapLeases(this.#leases, async ({ boxId, runDirectory }: Lease) => {
			connection ??= connectSsh(this.#address).then((opened) => stack.use(opened));
			await endRemoteBox(await connection, boxId, runDirectory);
		});
	}

	[Symbol.asyncDispose](): Promise<void> {
		return this.#open[Symbol.asyncDispose]();
	}

	#requireWalls(remote: Remote): void {
		requireWalls(remote, this.#address);
		if (remote.bwrap) return;
		this.#options.warn(
			`boxes on ${this.#address.host} isolate nothing: the agent runs as ${this.#address.user}, with that account's files and network`,
		);
	}

	/** Once for all boxes; a failure is not remembered. */
	#prepare(): Promise<Remote> {
		this.#remote ??= this.#prepareNow();
		const remote = this.#remote;
		remote.catch(() => {
			this.#remote = null;
		});
		return remote;
	}

	async #prepareNow(): Promise<Remote> {
		await using connection = await connectSsh(this.#address);
		const { agentBinary = null, host } = this.#options;
		return await prepareRemote(connection, agentBinary, host?.agent ?? null);
	}
}

/** Whoever gives up does not wait for what is prepared for all. */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
	if (signal === undefined) return await work;
	const { promise: over, reject } = Promise.withResolvers<never>();
	const giveUp = () => reject(signal.reason);
	signal.addEventListener("abort", giveUp);
	try {
		return await Promise.race([work, over]);
	} finally {
		signal.removeEventListener("abort", giveUp);
	}
}
