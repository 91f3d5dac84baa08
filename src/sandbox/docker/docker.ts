import { randomBytes } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { RolloutError } from "../../errors.ts";
import { findAgentBinary } from "../../host/binary.ts";
import { BoxSpec, HOME } from "../../model/task.ts";
import { lookInTurn } from "../availability.ts";
import { openBox } from "../box/box.ts";
import { folderOwner } from "../box/folder-owner.ts";
import { AGENT_PATH, BOX_RUN, initConfig } from "../box/launch.ts";
import { OpenBoxes } from "../box/open-boxes.ts";
import { stage } from "../box/staging.ts";
import { Egress } from "../egress/egress.ts";
import { dropLease, FIRST_CONTAINER_UID, type Lease, reapLeases, takeLease } from "../lease/lease.ts";
import { requireOwnFolder } from "../lease/own-folder.ts";
import { labelsOf } from "../lease/owner-labels.ts";
import { defaultRunRoot } from "../lease/run-root.ts";
import { SHM_BYTES, TMP_BYTES } from "../local/bwrap.ts";
import { toLimits } from "../local/cgroup.ts";
import type { Availability, Backend, OpenOptions, Sandbox } from "../sandbox.ts";
import { PROCESSES_OF_UID, removeContainer, startContainer } from "./container.ts";
import { askEngine, type Engine, type EngineFacts, findEngine } from "./engine.ts";
import { DEFAULT_IMAGE, type Image, resolveImage } from "./image.ts";
import { containerName, reapContainers } from "./orphans.ts";

export interface DockerOptions {
	/** DOCKER_HOST and PADDOCK_DOCKER_IMAGE are read from here. */
	env: Record<string, string | undefined>;
	runRoot?: string;
	agentBinary?: string;
}

/** Boxes as containers of a Docker or Podman engine on this machine. */
export async function openDockerBackend(options: DockerOptions): Promise<Backend> {
	return new DockerBackend(options, findEngine(options.env));
}

class DockerBackend implements Backend {
	readonly name = "docker";
	readonly #options: DockerOptions;
	readonly #engine: Engine;
	readonly #root: string;
	readonly #images = new Map<string, Promise<Image>>();
	readonly #open = new OpenBoxes();
	#facts: Promise<EngineFacts> | null = null;

	constructor(options: DockerOptions, engine: Engine) {
		this.#options = options;
		this.#engine = engine;
		this.#root = options.runRoot ?? defaultRunRoot();
	}

	available(): Promise<Availability> {
		return lookInTurn([
			{
				name: "engine",
				fix: "start Docker or Podman, or set DOCKER_HOST=unix://<socket>",
				look: async () => `${(await askEngine(this.#engine)).version} at ${this.#engine.socket}`,
			},
			{
				name: "shares this machine's files",
				fix: "use --sandbox ssh or e2b, or an engine on this machine",
				look: () => this.#requireSharedFiles(),
			},
			{
				name: "image",
				fix: "docker build -t paddock-task docker/task-image",
				look: async () => (await resolveImage(this.#engine, this.#defaultImage)).name,
			},
			{
				name: "opens a box",
				fix: "the image needs bash, tar, coreutils, git and ripgrep",
				look: () => this.#tryBox(),
			},
		]);
	}

	async open(options: OpenOptions): Promise<Sandbox> {
		options.signal?.throwIfAborted();
		const { spec, role = "agent", folder } = options;
		await this.#requireSharedFiles();
		const { podman, rootless } = await this.#askOnce();
		const image = await this.#image(spec.image ?? this.#defaultImage);
		const staged = await stage(this.#root, this.#options.agentBinary ?? findAgentBinary());
		const boxId = `box-${randomBytes(6).toString("hex")}`;
		const runDirectory = join(this.#root, "docker", boxId);
		const isRoot = process.getuid?.() === 0;
		const owner = isRoot && folder !== undefined ? await folderOwner(folder) : null;
		const cgroup = { version: "none" as const, folders: [], note: "kept by the engine" };
		const describe = async () => ({ boxId, runDirectory, cgroup });
		const { lease, path } = await takeLease(
			this.#leases,
			isRoot && owner === null,
			describe,
			FIRST_CONTAINER_UID,
		);
		const uid = lease.uid ?? owner ?? ownUid(rootless, podman);
		// Only of a uid that is the box's alone does the kernel count the processes as the box's.
		const processes = lease.uid === null ? PROCESSES_OF_UID : spec.pids;
		const egress = spec.network === "none" ? null : new Egress({ network: spec.network });
		const release = async () => {
			await egress?.[Symbol.asyncDispose]();
			await this.#destroy(lease);
			await dropLease(path);
		};
		await mkdir(runDirectory, { recursive: true, mode: 0o711 }).catch(async (error) => {
			await dropLease(path);
			throw error;
		});
		const box = await openBox({
			id: boxId,
			backend: this.name,
			home: HOME,
			agentBinary: AGENT_PATH,
			runDirectory,
			socketOwner: isRoot ? uid : undefined,
			signal: options.signal,
			onGateway: role === "agent" ? (connection) => options.onGateway(connection, boxId) : null,
			onEgress: egress === null ? undefined : (connection) => egress.accept(connection),
			launch: async () =>
				startContainer(this.#engine, {
					name: containerName(boxId),
					image: image.name,
					volumes: image.volumes,
					labels: await labelsOf(boxId),
					...{ spec, uid, staged, runDirectory, podman, rootless, folder },
					init: initConfig({
						...{ boxId, run: BOX_RUN, processes, imageEnv: image.env },
						...{ gateway: role === "agent", egress: egress !== null },
					}),
					facts: {
						...describeBox(spec, image),
						engine: (await this.#askOnce()).version,
						networkAsked: egress?.asked ?? [],
					},
				}),
			release,
		});
		return this.#open.add(box);
	}

	/** By record and by label: either may outlive the other. */
	async reap(): Promise<number> {
		await requireOwnFolder(this.#root, 0o711);
		const recorded = await reapLeases(this.#leases, (lease) => this.#destroy(lease));
		return recorded + (await reapContainers(this.#engine));
	}

	[Symbol.asyncDispose](): Promise<void> {
		return this.#open[Symbol.asyncDispose]();
	}

	async #destroy(lease: Lease): Promise<void> {
		await removeContainer(this.#engine, containerName(lease.boxId));
		await rm(lease.runDirectory, { recursive: true, force: true });
	}

	async #requireSharedFiles(): Promise<string> {
		const { remoteFiles } = await this.#askOnce();
		if (remoteFiles === null) return "yes";
		throw new RolloutError(
			"sandbox",
			"docker_not_local",
			`the engine runs in a virtual machine (${remoteFiles}): it cannot reach sockets of this machine`,
		);
	}

	#askOnce(): Promise<EngineFacts> {
		this.#facts ??= askEngine(this.#engine);
		const asked = this.#facts;
		asked.catch(() => {
			this.#facts = null;
		});
		return asked;
	}

	/** Pulled or built once, however many boxes wait for it; a failure is not remembered. */
	#image(name: string): Promise<Image> {
		const known = this.#images.get(name) ?? resolveImage(this.#engine, name);
		this.#images.set(name, known);
		known.catch(() => this.#images.delete(name));
		return known;
	}

	async #tryBox(): Promise<string> {
		await using box = await this.open({
			spec: BoxSpec.parse({ diskMb: 16 }),
			onGateway: (connection) => connection.destroy(),
		});
		const { exitCode, stderr } = await box.exec(
			"for p in tar git rg; do command -v $p >/dev/null || echo $p >&2; done",
		);
		if (exitCode === 0 && stderr === "") return "a container with every limit";
		throw new Error(`the image lacks ${stderr.trim().replaceAll("\n", ", ")}`);
	}

	get #defaultImage(): string {
		return this.#options.env.PADDOCK_DOCKER_IMAGE || DEFAULT_IMAGE;
	}

	get #leases(): string {
		return join(this.#root, "docker-leases");
	}
}

/** A host program that is not root cannot hand its sockets to another uid, so the box runs under its own. */
function ownUid(rootless: boolean, podman: boolean): number {
	// Rootless Docker maps our uid to 0 inside, without any capability.
	return rootless && !podman ? 0 : (process.getuid?.() ?? 0);
}

function describeBox(spec: BoxSpec, image: Image): Record<string, unknown> {
	const limits = toLimits(spec, TMP_BYTES + SHM_BYTES);
	return {
		isolation: "container",
		image: image.name,
		uid: "unprivileged, without capabilities",
		seccomp: "ours, beside the engine's own",
		capabilities: "none",
		network: spec.network,
		memoryLimitMb: Math.round(limits.memoryBytes / 1024 / 1024),
		pidsLimit: spec.pids,
		cpus: spec.cpus,
		diskLimitMb: spec.diskMb,
		fileSizeLimitMb: spec.fileSizeMb,
	};
}
