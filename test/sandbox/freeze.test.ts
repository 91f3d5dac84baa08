import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import { planCgroup } from "../../src/sandbox/local/cgroup.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import { requirePart } from "../fixtures/parts.ts";

test("a frozen box uses no processor time, however busy it was, and goes on when thawed", async (context) => {
	const { version } = await planCgroup("freeze-test");
	requirePart(context, "a writable cgroup", version !== "none", "run as root, or delegate a cgroup v2");
	await using backend = await openLocalBackend();
	const open = () => backend.open({ spec: BoxSpec.parse({}), onGateway: (c) => c.destroy() });
	await using box = await open();
	await using other = await open();
	await using _busy = await box.spawn(["bash", "-c", "while :; do :; done"]);
	await used(box.id, (first, now) => now > first);

	expect(await box.freeze()).toBe(true);
	const frozenAt = await usage(box.id);
	await used(other.id, async () => (await other.exec("sleep 0.3")).exitCode === 0);
	expect(await usage(box.id)).toBe(frozenAt);

	await box.thaw();
	await used(box.id, (first, now) => now > first);
	expect((await box.exec("echo warm")).stdout).toBe("warm\n");
});

/** Waits until the box's processor time satisfies `enough`. */
async function used(
	id: string,
	enough: (first: bigint, now: bigint) => boolean | Promise<boolean>,
): Promise<void> {
	const first = await usage(id);
	while (!(await enough(first, await usage(id))));
}

async function usage(id: string): Promise<bigint> {
	const v1 = await readFile(`/sys/fs/cgroup/cpuacct/paddock/${id}/cpuacct.usage`, "utf8").catch(() => null);
	if (v1 !== null) return BigInt(v1.trim());
	const { folders } = await planCgroup(id);
	return BigInt(/usage_usec (\d+)/.exec(await readFile(`${folders[0]}/cpu.stat`, "utf8"))?.[1] ?? 0);
}
