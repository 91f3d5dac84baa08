import { randomBytes } from "node:crypto";
import { Sandbox as Machine } from "e2b";
import { messageOf, type RolloutError, UsageError } from "../../errors.ts";
import { findAgentBinary } from "../../host/binary.ts";
import { BoxSpec, HOME } from "../../model/task.ts";
import { lookInTurn } from "../availability.ts";
import { openBox } from "../box/box.ts";
import {
	AGENT_PATH,
	type Doors,
	INIT_PATH,
	initConfig,
	type Launched,
	ROOM,
	socketsIn,
} from "../box/launch.ts";
import { OpenBoxes } from "../box/open-boxes.ts";
import { Egress } from "../egress/egress.ts";
import { isOrphaned, LABELS, labelsOf, machineId } from "../lease/owner-labels.ts";
import { type Availability, type Backend, type OpenOptions, refuseFolder, type Sandbox } from "../sandbox.ts";
import { SILENCE_MS, type Tunnel } from "../tunnel/tunnel.ts";
import type { BridgeOrder } from "../tunnel/wire.ts";
import { openTunnel } from "./e2b-tunnel.ts";
import { checksumOf, hasAgent, type Prepared, prepareMachine, toFailure, uploadAgent } from "./machine.ts";

export interface E2bOptions {
	/** E2B_API_KEY, PADDOCK_E2B_TEMPLATE and E2B's own variables for other addresses are read from here. */
	env: Record<string, string | undefined>;
	warn: (message: string) => void;
	agentBinary?: string;
}

export const DEFAULT_TEMPLATE = "paddock";
/** A machine whose owner has died ends by itself after so long; a living owner keeps extending it. */
const LIFE_MS = 600_000;
const EXTEND_EVERY_MS = 180_000;
const READY_TIMEOUT_MS = 300_000;
const RUN_FOLDER = "/run/paddock-box";

/** Boxes as E2B machines. */
export async function openE2bBackend(options: E2bOptions): Promise<Backend> {
	if (!options.env.E2B_API_KEY) throw new UsageError("E2B_API_KEY is not set", "e2b_not_configured");
	return new E2bBackend(options);
}

/** How the SDK finds the account, from our own environment rather than the process's. */
export function connectionOf(env: E2bOptions["env"]) {
	return {
		apiKey: env.E2B_API_KEY ?? "",
		...(env.E2B_DOMAIN ? { domain: env.E2B_DOMAIN } : {}),
		...(env.E2B_API_URL ? { apiUrl: env.E2B_API_URL } : {}),
		...(env.E2B_SANDBOX_URL ? { sandboxUrl: env.E2B_SANDBOX_URL } : {}),
	};
}

class E2bBackend implements Backend {
	readonly name = "e2b";
	readonly #options: E2bOptions;
	readonly #connection: ReturnType<typeof connectionOf>;
	readonly #binary: string;
	readonly #open = new OpenBoxes();
	/** Template → what boxes are made from: itself when it has the agent, else a snapshot that has. */
	readonly #sources = new Map<string, Promise<string>>();

	constructor(options: E2bOptions) {
		this.#binary = options.agentBinary ?? findAgentBinary("linux", "x64");
		this.#options = options;
		this.#connection = connectionOf(options.env);
	}

	available(): Promise<Availability> {
		const fix = "check E2B_API_KEY; make the template once: paddock e2b build-template";
		const look = async () => {
			const spec = BoxSpec.parse({ diskMb: 16 });
			await using box = await this.open({ spec, onGateway: (connection) => connection.destroy() });
			return String(box.facts.template);
		};
		return lookInTurn([{ name: "opens a box", fix, look }]);
	}

	async open(options: OpenOptions): Promise<Sandbox> {
		refuseFolder(this.name, options);
		options.signal?.throwIfAborted();
		const { spec, role = "agent" } = options;
		const boxId = `box-${randomBytes(6).toString("hex")}`;
		const template = spec.template ?? this.#options.env.PADDOCK_E2B_TEMPLATE ?? DEFAULT_TEMPLATE;
		const egress = spec.network === "none" ? null : new Egress({ network: spec.network });
		const doorsWanted = { gateway: role === "agent", egress: egress !== null };
		let machine: Machine | null = null;
		const box = await openBox({
			id: boxId,
			backend: this.name,
			home: HOME,
			agentBinary: AGENT_PATH,
			runDirectory: null,
			readyTimeoutMs: READY_TIMEOUT_MS,
			signal: options.signal,
			onGateway: role === "agent" ? (duplex) => options.onGateway(duplex, boxId) : null,
			onEgress: egress === null ? undefined : (duplex) => egress.accept(duplex),
			launch: async (doors) => {
				machine = await this.#create(await this.#source(template), boxId);
				const facts = { template, machine: machine.sandboxId, networkAsked: egress?.asked ?? [] };
				return await this.#launch(machine, { boxId, spec, doorsWanted, doors, facts });
			},
			release: async () => {
				await egress?.[Symbol.asyncDispose]();
				await machine?.kill();
			},
		});
		return this.#open.add(box);
	}

	async reap(): Promise<number> {
		const metadata = { [LABELS.machine]: await machineId() };
		const pages = Machine.list({ ...this.#connection, query: { metadata } });
		let reaped = 0;
		while (pages.hasNext) {
			for (const { sandboxId, metadata: labels } of await pages.nextItems()) {
				if (!(await isOrphaned(labels))) continue;
				if (await Machine.kill(sandboxId, this.#connection)) reaped += 1;
			}
		}
		return reaped;
	}

	[Symbol.asyncDispose](): Promise<void> {
		return this.#open[Symbol.asyncDispose]();
	}

	/** Looked at once for all boxes; a failure is not remembered. */
	#source(template: string): Promise<string> {
		const known = this.#sources.get(template) ?? this.#findSource(template);
		this.#sources.set(template, known);
		known.catch(() => this.#sources.delete(template));
		return known;
	}

	/** A template without this very OpenCode is completed once and kept as a snapshot under a name that says both. */
	async #findSource(template: string): Promise<string> {
		const probe = await this.#create(template, "probe");
		try {
			if (await hasAgent(probe, this.#binary)) return template;
			const version = (await checksumOf(this.#binary)).slice(0, 12);
			const name = `${template.replace(/[^a-z0-9-]/gi, "-").toLowerCase()}-opencode-${version}`;
			if (await this.#exists(name)) return name;
			this.#options.warn(
				`the E2B template ${template} lacks this version of OpenCode: uploading it once, into the snapshot ${name}; ` +
					"`paddock e2b build-template` makes a template that has it",
			);
			await uploadAgent(probe, this.#binary);
			return (await probe.createSnapshot({ name })).snapshotId;
		} catch (error) {
			throw toFailure(error);
		} finally {
			await probe.kill();
		}
	}

	async #exists(template: string): Promise<boolean> {
		try {
			await (await this.#create(template, "probe")).kill();
			return true;
		} catch (error) {
			if ((error as RolloutError).code === "e2b_template_unusable") return false;
			throw error;
		}
	}

	/** Whose it is, is said as it is made: there is no moment in which nobody could find it. */
	async #create(template: string, boxId: string): Promise<Machine> {
		const metadata = await labelsOf(boxId);
		try {
			return await Machine.create(template, {
				...this.#connection,
				...{ metadata, timeoutMs: LIFE_MS, allowInternetAccess: false },
			});
		} catch (error) {
			throw toFailure(error);
		}
	}

	async #launch(machine: Machine, plan: LaunchPlan): Promise<Launched> {
		try {
			const prepared = await prepareMachine(machine, plan.spec);
			const tunnel = await openTunnel(machine, plan.doors, toOrder(plan, prepared));
			return toLaunched(machine, tunnel, { ...describeBox(plan.spec, prepared), ...plan.facts });
		} catch (error) {
			throw toFailure(error);
		}
	}
}

interface LaunchPlan {
	boxId: string;
	spec: BoxSpec;
	doorsWanted: { gateway: boolean; egress: boolean };
	doors: Doors;
	facts: Record<string, unknown>;
}

function toLaunched(machine: Machine, tunnel: Tunnel, facts: Record<string, unknown>): Launched {
	const extending = setInterval(() => {
		machine.setTimeout(LIFE_MS).catch((error) => tunnel.close(`E2B gave the box up: ${messageOf(error)}`));
	}, EXTEND_EVERY_MS);
	extending.unref();
	void tunnel.ended.then(() => clearInterval(extending));
	return {
		facts,
		exited: tunnel.ended,
		kill: async () => {
			await machine.kill();
			tunnel.close("the box was closed");
		},
	};
}

/** Its own process table, in which the init comes first: everything else in it can be ended, and only that. */
const NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

function toOrder({ boxId, spec, doorsWanted }: LaunchPlan, { uid }: Prepared): BridgeOrder {
	const init = initConfig({ boxId, run: RUN_FOLDER, ...doorsWanted, processes: spec.pids });
	return {
		folder: RUN_FOLDER,
		folders: [],
		files: {},
		sockets: socketsIn(RUN_FOLDER, doorsWanted),
		room: ROOM,
		argv: [
			...NAMESPACE,
			...["setpriv", "--reuid", `${uid}`, "--regid", `${uid}`, "--clear-groups", "--no-new-privs"],
			...["--bounding-set=-all", "--inh-caps=-all", "--"],
			...["prlimit", `--fsize=${spec.fileSizeMb * 1024 * 1024}`, "--core=0", "--"],
			...[AGENT_PATH, INIT_PATH, JSON.stringify(init)],
		],
		env: { BUN_BE_BUN: "1", HOME: "/nowhere", PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
		silenceMs: SILENCE_MS,
		patienceMs: 0,
		socketOwner: uid,
	};
}

function describeBox(spec: BoxSpec, { sizedHome }: Prepared): Record<string, unknown> {
	return {
		isolation: "microvm",
		uid: "unprivileged, without capabilities",
		seccomp: true,
		network: spec.network,
		memoryLimitMb: "the template's",
		pidsLimit: spec.pids,
		cpus: "the template's",
		diskLimitMb: sizedHome ? spec.diskMb : "the template's",
		fileSizeLimitMb: spec.fileSizeMb,
	};
}
