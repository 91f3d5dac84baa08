import { createHash, randomBytes } from "node:crypto";
import { cpus, loadavg } from "node:os";
import { Readable } from "node:stream";
import { BoxSpec } from "../src/model/task.ts";
import { openLocalBackend } from "../src/sandbox/local/local.ts";

const INPUTS = Number(process.env.INPUTS ?? 2_000);
const LARGEST_BYTES = 64 * 1024 * 1024;

const READERS = {
	"at once": "sha256sum",
	late: "sleep 0.02; sha256sum",
	"bit by bit": "{ for i in 1 2 3; do head -c 100000; sleep 0.01; done; cat; } | sha256sum",
};

/** Inputs of 0 to 64 MB into commands of a local box, each compared by its checksum: none may lose a byte. */
export async function benchInput(print: (text: string) => void): Promise<void> {
	await using backend = await openLocalBackend();
	await using box = await backend.open({
		spec: BoxSpec.parse({}),
		onGateway: (connection) => connection.destroy(),
	});
	const pool = randomBytes(LARGEST_BYTES);
	const rows = Object.entries(READERS).map(([how, command]) => ({
		how,
		command,
		sent: 0,
		bytes: 0,
		damaged: 0,
	}));
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
	print(`${INPUTS} inputs of 0 to 64 MB. ${cpus().length} cores, load ${loadavg()[0]!.toFixed(1)}.`);
	print("");
	print("| read | inputs | MB in all | damaged |");
	print("|---|---|---|---|");
	for (const { how, sent, bytes, damaged } of rows) {
		print(`| ${how} | ${sent} | ${Math.round(bytes / 1e6)} | ${damaged} |`);
	}
	if (rows.some(({ damaged }) => damaged > 0)) throw new Error("inputs lost bytes on their way into the box");
}

/** Every size class is met again and again, the largest least often. */
function sizeOf(index: number): number {
	const classes = [0, 1, 4_096, 65_536, 65_537, 262_144, 1_000_000, 1_048_577, 2_500_000, 6_000_000];
	if (index % 100 === 99) return LARGEST_BYTES;
	if (index % 25 === 24) return 30_000_000;
	return classes[Math.floor(index / 3) % classes.length]! + (index % 7);
}
