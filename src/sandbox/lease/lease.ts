import { randomBytes } from "node:crypto";
import { link, mkdir, readdir, readFile, rename, rm, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { RolloutError } from "../../errors.ts";
import { startTimeOf } from "../../host/process.ts";

/** Who a box belongs to. A pid alone can be given to another program; with its start time and boot it cannot. */
export const Owner = z.object({ pid: z.int(), startTime: z.string(), bootId: z.string() });
export type Owner = z.infer<typeof Owner>;

/** A box on record: enough to destroy it without its owner. */
export const Lease = z.object({
	boxId: z.string(),
	owner: Owner,
	/** Dedicated to this box; null where boxes run under the owner's uid. */
	uid: z.int().min(59_000).nullable(),
	runDirectory: z.string(),
	cgroup: z.object({ version: z.enum(["v2", "v1", "none"]), folders: z.array(z.string()), note: z.string() }),
	createdAt: z.string(),
});
export type Lease = z.infer<typeof Lease>;

const FIRST_UID = 60_000;
/** Containers have their own numbers: their records are kept, and their processes found, elsewhere. */
export const FIRST_CONTAINER_UID = 59_000;
/** systemd's own ranges begin above. */
const UID_COUNT = 577;

/** Records the box under a slot nobody else holds. The record is complete the moment it exists. */
export async function takeLease(
	folder: string,
	dedicatedUid: boolean,
	describe: (uid: number | null) => Promise<Omit<Lease, "owner" | "uid" | "createdAt">>,
	firstUid = FIRST_UID,
): Promise<{ lease: Lease; path: string }> {
	await mkdir(folder, { recursive: true, mode: 0o700 });
	const owner = await describeSelf();
	const slots = dedicatedUid ? await freeUids(folder, firstUid) : [null];
	for (const uid of slots) {
		const description = await describe(uid);
		const lease = { ...description, owner, uid, createdAt: new Date().toISOString() };
		const path = join(folder, `${uid ?? description.boxId}.json`);
		if (await claim(folder, path, lease)) return { lease, path };
	}
	throw new RolloutError("sandbox", "no_free_uid", `all ${UID_COUNT} box uids are taken`, {
		retryable: true,
	});
}

export async function dropLease(path: string): Promise<void> {
	await rm(path, { force: true });
}

/**
 * Hands every lease of a dead owner to `destroy`. The lease is renamed first, so that of several reapers one does
 * the work, and it keeps its uid taken until that is done. A reaper that dies or fails leaves it for the next one,
 * and one orphan's failing keeps no other alive.
 */
export async function reapLeases(folder: string, destroy: (lease: Lease) => Promise<void>): Promise<number> {
	let reaped = 0;
	const failures: unknown[] = [];
	for (const name of await leaseNames(folder)) {
		const path = join(folder, name);
		const lease = await readLease(path);
		if (lease === null || (await isAlive(lease.owner))) continue;
		if (await isBeingReaped(name)) continue;
		const mine = join(
			folder,
			`${name.split(".")[0]}.reaping-${process.pid}-${startTimeOf(process.pid)}.json`,
		);
		try {
			await rename(path, mine);
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code === "ENOENT") continue;
			throw error;
		}
		try {
			await destroy(lease);
			await dropLease(mine);
			reaped += 1;
		} catch (error) {
			await rename(mine, path);
			failures.push(error);
		}
	}
	if (failures.length > 0) throw failures[0];
	return reaped;
}

async function leaseNames(folder: string): Promise<string[]> {
	try {
		return (await readdir(folder)).filter((name) => name.endsWith(".json"));
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
		throw error;
	}
}

async function readLease(path: string): Promise<Lease | null> {
	try {
		return Lease.parse(JSON.parse(await readFile(path, "utf8")));
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
		throw error;
	}
}

async function isBeingReaped(name: string): Promise<boolean> {
	const match = /\.reaping-(\d+)-(\d+)\.json$/.exec(name);
	return match !== null && startTimeOf(Number(match[1])) === match[2];
}

export async function isAlive(owner: Owner): Promise<boolean> {
	if (owner.bootId !== (await bootId())) return false;
	return startTimeOf(owner.pid) === owner.startTime;
}

/** Written beside and linked into place: a slot is either free or held by a readable record. */
async function claim(folder: string, path: string, lease: Lease): Promise<boolean> {
	const draft = join(folder, `.draft-${randomBytes(6).toString("hex")}`);
	await writeFile(draft, JSON.stringify(lease), { mode: 0o600 });
	try {
		await link(draft, path);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
		throw error;
	} finally {
		await unlink(draft);
	}
	if (lease.uid === null || !(await isStillDying(folder, lease.uid))) return true;
	await dropLease(path);
	return false;
}

/** A reaper may have renamed the slot's old record between our look and our claim. */
async function isStillDying(folder: string, uid: number): Promise<boolean> {
	return (await leaseNames(folder)).some((name) => name.startsWith(`${uid}.reaping-`));
}

async function freeUids(folder: string, firstUid: number): Promise<number[]> {
	const taken = new Set((await leaseNames(folder)).map((name) => Number(name.split(".")[0])));
	const passwd = await readFile("/etc/passwd", "utf8");
	for (const line of passwd.split("\n")) taken.add(Number(line.split(":")[2]));
	const uids = Array.from({ length: UID_COUNT }, (_, index) => firstUid + index);
	return uids.filter((uid) => !taken.has(uid));
}

export async function describeSelf(): Promise<Owner> {
	return { pid: process.pid, startTime: startTimeOf(process.pid) ?? "0", bootId: await bootId() };
}

async function bootId(): Promise<string> {
	return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
}
