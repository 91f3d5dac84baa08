import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { findAgentBinary } from "../../host/binary.ts";
import { type BoxSpec, HOME } from "../../model/task.ts";
import { openBox } from "../box/box.ts";
import { folderOwner } from "../box/folder-owner.ts";
import { AGENT_PATH, BOX_RUN, initConfig } from "../box/launch.ts";
import { OpenBoxes } from "../box/open-boxes.ts";
import { type Staged, stage } from "../box/staging.ts";
import { Egress, type EgressOptions } from "../egress/egress.ts";
import { dropLease, type Lease, reapLeases, takeLease } from "../lease/lease.ts";
import { destroyOrphan, destroyRemains } from "../lease/orphans.ts";
import { requireOwnFolder } from "../lease/own-folder.ts";
import { defaultRunRoot } from "../lease/run-root.ts";
import type { Availability, Backend, OpenOptions, Sandbox } from "../sandbox.ts";
import { SHM_BYTES, startBwrap, TMP_BYTES } from "./bwrap.ts";
import { type Limits, makeCgroup, planCgroup, toLimits, weighCgroup } from "./cgroup.ts";
import { selfTest } from "./self-test.ts";

export interface LocalOptions {
	/**
	 * Short and neutral: its name shows inside, and a socket path below it must stay under 108 bytes. Box uids are
	 * handed out through it, so all programs of one machine share one.
	 */
	runRoot?: string;
	agentBinary?: string;
	/** How long a box's init may take to answer before the box counts as lost. */
	answerTimeoutMs?: number;
	/** Where names outside lead to, instead of where name servers say. */
	wayOut?: Pick<EgressOptions, "resolve" | "dial">;
}

/** Boxes on this machine, by bubblewrap. */
export async function openLocalBackend(options: LocalOptions = {}): Promise<Backend> {
	return new LocalBackend(options);
}

class LocalBackend implements Backend {
	readonly name = "local";
	readonly #root: string;
	readonly #options: LocalOptions;
	readonly #open = new OpenBoxes();
	#staged: Staged | null = null;

	constructor(options: LocalOptions) {
		this.#root = options.runRoot ?? defaultRunRoot();
		this.#options = options;
	}

	available(): Promise<Availability> {
		return selfTest(this);
	}

	async open(options: OpenOptions): Promise<Sandbox> {
		const { spec, role = "agent", folder } = options;
		const isRoot = process.getuid?.() === 0;
		const owner = isRoot && folder !== undefined ? await folderOwner(folder) : null;
		const staged = await this.#stage(isRoot);
		const boxId = `box-${randomBytes(6).toString("hex")}`;
		const runDirectory = join(this.#root, "boxes", boxId);
		const { lease, path } = await takeLease(this.#leases, isRoot && owner === null, async () => ({
			boxId,
			runDirectory,
			cgroup: await planCgroup(boxId),
		}));
		const release = () => releaseLease(lease, path);
		const limits = toLimits(spec, TMP_BYTES + SHM_BYTES);
		try {
			await mkdir(runDirectory, { recursive: true, mode: 0o711 });
			await makeCgroup(lease.cgroup, limits);
			if (options.isAhead) await weighCgroup(lease.cgroup, true);
		} catch (error) {
			await release();
			throw error;
		}
		const egress =
			spec.network === "none" ? null : new Egress({ network: spec.network, ...this.#options.wayOut });
		const init = initConfig({
			...{ boxId, run: BOX_RUN, processes: spec.pids },
			...{ gateway: role === "agent", egress: egress !== null },
		});
		const box = await openBox({
			id: boxId,
			backend: this.name,
			home: HOME,
			agentBinary: AGENT_PATH,
			runDirectory,
			socketOwner: lease.uid ?? owner ?? undefined,
			signal: options.signal,
			answerTimeoutMs: this.#options.answerTimeoutMs,
			onGateway: role === "agent" ? (connection) => options.onGateway(connection, boxId) : null,
			onEgress: egress === null ? undefined : (connection) => egress.accept(connection),
			launch: () =>
				startBwrap({
					...{ spec, uid: lease.uid ?? owner, staged, runDirectory, cgroup: lease.cgroup, init, folder },
					facts: { ...describeBox(lease, spec, limits), folder, networkAsked: egress?.asked ?? [] },
				}),
			release: async () => {
				await egress?.[Symbol.asyncDispose]();
				await release();
			},
		});
		return this.#open.add(box);
	}

	/** Once, and again should somebody have tidied it away. */
	async #stage(isRoot: boolean): Promise<Staged> {
		const known = this.#staged;
		if (known !== null && [known.agent, known.init, known.runUntrusted, known.etc].every(existsSync))
			return known;
		this.#staged = await stage(this.#root, this.#options.agentBinary ?? findAgentBinary(), isRoot);
		return this.#staged;
	}

	async reap(): Promise<number> {
		await requireOwnFolder(this.#root, 0o711);
		return await reapLeases(this.#leases, destroyOrphan);
	}

	[Symbol.asyncDispose](): Promise<void> {
		return this.#open[Symbol.asyncDispose]();
	}

	get #leases(): string {
		return join(this.#root, "leases");
	}
}

/** What really holds on this machine, for the record. */
function describeBox(lease: Lease, spec: BoxSpec, limits: Limits): Record<string, unknown> {
	const limited = lease.cgroup.version !== "none";
	return {
		isolation: "bubblewrap",
		uid: lease.uid === null ? "shared with the host program" : "dedicated",
		seccomp: true,
		capabilities: "none",
		network: spec.network,
		cgroup: lease.cgroup.version,
		cgroupNote: lease.cgroup.note,
		/** Programs and files together: home, /tmp and /dev/shm are kept in memory. */
		memoryLimitMb: limited ? Math.round(limits.memoryBytes / 1024 / 1024) : null,
		pidsLimit: spec.pids,
		cpus: limited ? limits.cpus : null,
		diskLimitMb: spec.diskMb,
		fileSizeLimitMb: spec.fileSizeMb,
	};
}

/** The box is dead; whatever of it is not, and what it stood on, goes too; the record last. */
async function releaseLease(lease: Lease, path: string): Promise<void> {
	await destroyRemains(lease);
	await dropLease(path);
}
