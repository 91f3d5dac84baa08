import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Backend } from "../../src/sandbox/sandbox.ts";
import { requirePart } from "../fixtures/parts.ts";

const BOXES = 200;
const AT_ONCE = 8;

test("two hundred boxes, eight at once, leave nothing behind and cost no memory", {
	timeout: 600_000,
}, async (context) => {
	await using backend = await openLocalBackend();
	requirePart(context, "bubblewrap", (await backend.available()).ok, "apt-get install bubblewrap");
	await openAndClose(backend, AT_ONCE * 2);
	const before = holdings();
	const boxes = await openAndClose(backend, BOXES);
	const after = holdings();

	expect(boxes).toHaveLength(BOXES);
	expect(remains(boxes)).toEqual([]);
	expect(after.descriptors).toBeLessThanOrEqual(before.descriptors);
	expect(after.children).toEqual(before.children);
	// What lies outside of the heap is given back a moment after it was found to be unused.
	await expect
		.poll(() => holdings().heapBytes - before.heapBytes, { timeout: 60_000 })
		.toBeLessThan(4_000_000);
});

/** Each box is used, some with processes that will not go by themselves. */
async function openAndClose(backend: Backend, count: number): Promise<string[]> {
	const ids: string[] = [];
	const worker = async () => {
		while (ids.length < count) {
			const index = ids.push("") - 1;
			await using box = await backend.open({ spec: BoxSpec.parse({}), onGateway: (c) => c.destroy() });
			ids[index] = box.id;
			const { stdout } = await box.exec(
				"head -c 1000000 /dev/zero > file; (trap '' TERM; sleep 600) > /dev/null 2>&1 & echo ok",
			);
			expect(stdout).toBe("ok\n");
		}
	};
	await Promise.all(Array.from({ length: AT_ONCE }, worker));
	return ids;
}

function holdings(): { descriptors: number; children: string[]; heapBytes: number } {
	setFlagsFromString("--expose-gc");
	runInNewContext("gc")();
	const { heapUsed, external } = process.memoryUsage();
	return {
		descriptors: readdirSync("/proc/self/fd").length,
		children: readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim().split(" "),
		heapBytes: heapUsed + external,
	};
}

function remains(boxes: string[]): string[] {
	const known = new Set(boxes);
	const folders = ["/run/paddock/boxes"];
	for (const controller of ["", "memory", "pids", "cpu", "cpuacct", "freezer"]) {
		folders.push(join("/sys/fs/cgroup", controller, "paddock"));
	}
	const left = folders.filter(existsSync).flatMap((folder) => {
		return readdirSync(folder).flatMap((name) => (known.has(name) ? [join(folder, name)] : []));
	});
	const leases = readdirSync("/run/paddock/leases").filter((name) => {
		const text = name.endsWith(".json") ? readOrEmpty(join("/run/paddock/leases", name)) : "";
		return boxes.some((box) => text.includes(box));
	});
	const processes = readdirSync("/proc").filter((pid) => {
		const line = /^\d+$/.test(pid) ? readOrEmpty(`/proc/${pid}/cmdline`) : "";
		return boxes.some((box) => line.includes(box));
	});
	const mounts = readFileSync("/proc/self/mountinfo", "utf8");
	return [...left, ...leases, ...processes, ...boxes.filter((box) => mounts.includes(box))];
}

/** Other programs' records and processes come and go while we look. */
function readOrEmpty(path: string): string {
	try {
		return readFileSync(path, "latin1");
	} catch {
		return "";
	}
}
