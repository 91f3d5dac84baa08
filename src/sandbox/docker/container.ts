import { type Duplex, PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type Docker from "dockerode";
import { Tail } from "../../host/tail.ts";
import { type BoxSpec, WORKDIR } from "../../model/task.ts";
import { AGENT_PATH, BOX_BIN, BOX_RUN, INIT_PATH, type Launched } from "../box/launch.ts";
import { RUN_UNTRUSTED } from "../box/run-untrusted.ts";
import type { Staged } from "../box/staging.ts";
import type { InitConfig } from "../box/wire.ts";
import { SHM_BYTES, TMP_BYTES } from "../local/bwrap.ts";
import { toLimits } from "../local/cgroup.ts";
import { type Engine, engineFailed, statusOf } from "./engine.ts";

const OPEN_FILES = 8192;
/** The last resort where boxes share a uid; each container's own limit is the engine's. */
export const PROCESSES_OF_UID = 4096;
const REMOVE_ATTEMPTS = 200;

export interface ContainerPlan {
	name: string;
	image: string;
	/** Folders the image would have on a disk nobody limits: here they begin empty, in memory, as home does. */
	volumes: readonly string[];
	labels: Record<string, string>;
	spec: BoxSpec;
	uid: number;
	podman: boolean;
	rootless: boolean;
	staged: Staged;
	runDirectory: string;
	init: InitConfig;
	facts: Record<string, unknown>;
	/** A folder of this machine in the place of the workdir. */
	folder?: string | undefined;
}

/** Starts the box's container and reads its last words; it removes itself when it ends. */
export async function startContainer(engine: Engine, plan: ContainerPlan): Promise<Launched> {
	const words = new Tail(4096);
	try {
		const container = await engine.docker.createContainer(toOptions(plan));
		const output = await container.attach({ stream: true, stdout: true, stderr: true });
		const sink = new PassThrough().on("data", (chunk: Buffer) => words.push(chunk));
		engine.docker.modem.demuxStream(output, sink, sink);
		const exited = new Promise<string>((resolve) => {
			const end = () => resolve(`the box ended: ${lastWords(words) || "no last words"}`);
			output.once("end", end);
			output.once("close", end);
			output.once("error", end);
		});
		await container.start();
		return toLaunched(engine, container, plan, exited, () => (output as Duplex).destroy());
	} catch (error) {
		await removeContainer(engine, plan.name).catch(() => {});
		throw engineFailed(error, engine.socket);
	}
}

function toLaunched(
	engine: Engine,
	container: Docker.Container,
	plan: ContainerPlan,
	exited: Promise<string>,
	hangUp: () => void,
): Launched {
	let frozen = false;
	const thaw = async () => {
		if (!frozen) return;
		frozen = false;
		await container.unpause();
	};
	return {
		facts: plan.facts,
		exited,
		kill: async () => {
			// A frozen process dies only when it is thawed.
			await thaw().catch(() => {});
			await removeContainer(engine, plan.name);
			hangUp();
			await exited;
		},
		freeze: async () => {
			// Some engines lack what it takes; their boxes then simply stay awake.
			frozen = await container.pause().then(
				() => true,
				() => false,
			);
			return frozen;
		},
		thaw,
	};
}

/** Ends and removes it; resolves when the engine has forgotten it, which is also true if it never knew it. */
export async function removeContainer({ docker, socket }: Engine, name: string): Promise<void> {
	const container = docker.getContainer(name);
	for (let attempt = 0; attempt < REMOVE_ATTEMPTS; attempt += 1) {
		try {
			await container.remove({ force: true, v: true });
		} catch (error) {
			const status = statusOf(error);
			if (status === 404) return;
			// Somebody, perhaps the container itself, is already removing it.
			if (status !== 409 && status !== 500) throw engineFailed(error, socket);
			await sleep(25);
		}
	}
	throw engineFailed(new Error(`the engine does not remove ${name}`), socket);
}

function toOptions(plan: ContainerPlan): Docker.ContainerCreateOptions {
	const { spec, staged, uid } = plan;
	const limits = toLimits(spec, TMP_BYTES + SHM_BYTES);
	// Podman knows no uid= here, but can hand a folder over to the container's user.
	const owner = plan.podman ? "U,notmpcopyup" : `uid=${uid},gid=${uid}`;
	const volume = `rw,exec,nosuid,nodev,mode=1777,size=${spec.diskMb * 1024 * 1024}`;
	const mount = (from: string, to: string) => ({
		Type: "bind" as const,
		Source: from,
		Target: to,
		ReadOnly: true,
	});
	return {
		name: plan.name,
		Image: plan.image,
		Labels: plan.labels,
		Hostname: "sandbox",
		User: `${uid}:${uid}`,
		WorkingDir: "/",
		// The init is pid 1: nobody in the box can end it, stop it, or look into it.
		Entrypoint: [AGENT_PATH, INIT_PATH],
		Cmd: [JSON.stringify(plan.init)],
		Env: ["BUN_BE_BUN=1", "HOME=/nowhere", "PATH=/usr/bin:/bin"],
		AttachStdin: false,
		Tty: false,
		HostConfig: {
			AutoRemove: true,
			NetworkMode: "none",
			ReadonlyRootfs: true,
			CapDrop: ["ALL"],
			SecurityOpt: ["no-new-privileges"],
			// Rootless Podman then maps our own uid to the same number inside.
			...(plan.podman && plan.rootless ? { UsernsMode: "keep-id" } : {}),
			Memory: limits.memoryBytes,
			MemorySwap: limits.memoryBytes,
			NanoCpus: Math.round(spec.cpus * 1e9),
			PidsLimit: limits.pids,
			ShmSize: SHM_BYTES,
			Ulimits: [
				{ Name: "nofile", Soft: OPEN_FILES, Hard: OPEN_FILES },
				{ Name: "nproc", Soft: PROCESSES_OF_UID, Hard: PROCESSES_OF_UID },
				{ Name: "fsize", Soft: spec.fileSizeMb * 1024 * 1024, Hard: spec.fileSizeMb * 1024 * 1024 },
				{ Name: "core", Soft: 0, Hard: 0 },
			],
			Tmpfs: {
				...Object.fromEntries(plan.volumes.map((path) => [path, volume])),
				"/tmp": `rw,exec,nosuid,nodev,mode=1777,size=${TMP_BYTES}`,
				[plan.init.home]: `rw,exec,nosuid,nodev,mode=0755,${owner},size=${spec.diskMb * 1024 * 1024}`,
			},
			Mounts: [
				mount(staged.agent, AGENT_PATH),
				mount(staged.init, INIT_PATH),
				mount(staged.runUntrusted, `${BOX_BIN}/${RUN_UNTRUSTED}`),
				mount(plan.runDirectory, BOX_RUN),
				...(plan.folder === undefined ? [] : [{ ...mount(plan.folder, WORKDIR), ReadOnly: false }]),
			],
			LogConfig: { Type: "none", Config: {} },
		},
	};
}

/** The runtime signs its crash reports; what it says before that is the reason. */
function lastWords(words: Tail): string | undefined {
	const lines = words.text().trim().split("\n");
	return lines.find((line) => line.startsWith("error:")) ?? lines.at(-1);
}
