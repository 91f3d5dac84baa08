import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { BoxSpec } from "../src/model/task.ts";
import { openDockerBackend } from "../src/sandbox/docker/docker.ts";
import { openE2bBackend } from "../src/sandbox/e2b/e2b.ts";
import { openLocalBackend } from "../src/sandbox/local/local.ts";
import { openProcessBackend } from "../src/sandbox/process/process.ts";
import type { Backend, Sandbox } from "../src/sandbox/sandbox.ts";
import { openSshBackend } from "../src/sandbox/ssh/ssh.ts";
import { startE2b } from "../test/fakes/e2b.ts";
import { startEngine } from "../test/fixtures/docker-engine.ts";
import { startSshd } from "../test/fixtures/sshd.ts";

const INPUTS = Number(process.env.INPUTS ?? 2_000);
const LARGEST_BYTES = 64 * 1024 * 1024;

const READERS = {
	"at once": "sha256sum",
	late: "sleep 0.02; sha256sum",
	"bit by bit": "{ for i in 1 2 3; do head -c 100000; sleep 0.01; done; cat; } | sha256sum",
};

/** Each with what it talks to: a real engine, a real sshd; E2B's cloud is a stand-in, spoken to by its own SDK. */
const BACKENDS: Record<string, (using: AsyncDisposableStack) => Promise<Backend>> = {
	local: () => openLocalBackend(),
	process: () => openProcessBackend({ warn: () => {} }),
	docker: async (using) => openDockerBackend({ env: using.use(await startEngine("docker")).env }),
	ssh: async (using) => {
		const runRoot = using.adopt(await mkdtemp(join(tmpdir(), "pd-")), (folder) =>
			rm(folder, { recursive: true, force: true }),
		);
		return await openSshBackend({ env: using.use(await startSshd()).env, warn: () => {}, runRoot });
	},
	"e2b (stand-in)": async (using) => openE2bBackend({ env: using.use(await startE2b()).env, warn: () => {} }),
};

/** Inputs of 0 to 64 MB into commands of a box of every backend, each compared by its checksum: none may lose a byte. */
export async function benchInput(print: (text: string) => void): Promise<void> {
	const pool = randomBytes(LARGEST_BYTES);
	print(`${INPUTS} inputs of 0 to 64 MB for each backend. ${cpus().length} cores.`);
	print("");
	print("| backend | read | inputs | MB in all | damaged | load |");
	print("|---|---|---|---|---|---|");
	let damaged = 0;
	for (const [name, start] of Object.entries(BACKENDS)) {
		await using using = new AsyncDisposableStack();
		const backend = using.use(await start(using));
		const box = using.use(
			await backend.open({ spec: BoxSpec.parse({}), onGateway: (connection) => connection.destroy() }),
		);
		for (const row of await sendAll(box, pool)) {
			const load = loadavg()[0]!.toFixed(1);
			print(
				`| ${name} | ${row.how} | ${row.sent} | ${Math.round(row.bytes / 1e6)} | ${row.damaged} | ${load} |`,
			);
			damaged += row.damaged;
		}
	}
	if (damaged > 0) throw new Error("inputs lost bytes on their way into a box");
}

async function sendAll(box: Sandbox, pool: Buffer) {
	const readers = Object.entries(READERS);
	const rows = readers.map(([how, command]) => ({ how, command, sent: 0, bytes: 0, damaged: 0 }));
	for (let index = 0; index < INPUTS; index += 1) {
		const row = rows[index % rows.length]!;
		const bytes = pool.subarray(0, sizeOf(index));
		const stdin = index % 2 === 0 ? bytes : Readable.from([bytes]);
		const { stdout, exitCode } = await box.exec(row.command, { stdin });
		const whole = exitCode === 0 && stdout.slice(0, 64) === createHash("sha256").update(bytes).digest("hex");
		row.sent += 1;
		row.bytes += bytes.length;
		if (!whole) row.damaged += 1;
	}
	return rows;
}

/** Every size class is met again and again, the largest least often. */
function sizeOf(index: number): number {
	const classes = [0, 1, 4_096, 65_536, 65_537, 262_144, 1_000_000, 1_048_577, 2_500_000, 6_000_000];
	if (index % 100 === 99) return LARGEST_BYTES;
	if (index % 25 === 24) return 30_000_000;
	return classes[Math.floor(index / 3) % classes.length]! + (index % 7);
}
