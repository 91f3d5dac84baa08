import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { findAgentBinary } from "../src/host/binary.ts";
import { BoxSpec } from "../src/model/task.ts";
import { openLocalBackend } from "../src/sandbox/local/local.ts";
import type { Backend, Sandbox } from "../src/sandbox/sandbox.ts";
import { measureAgent, printAgent, VERIFY } from "./sandbox/agent.ts";

const OPENS = 20;
const COMMANDS = 100;
const SNAPSHOTS = 10;
const FILES = 440;
const FILE_BYTES = 14_000;
const STAGED_FILES = [2_000, 20_000];
const STAGINGS = 3;

interface Row {
	what: string;
	box: number[];
	bare: number[] | null;
	bareWhat: string;
}

/** What a local box costs, each figure beside the bare process that does the same, turn by turn in the same run. */
export async function benchSandbox(print: (text: string) => void): Promise<void> {
	await using backend = await openLocalBackend();
	await using folder = await temporaryFolder();
	const rows = [
		...(await measureLife(backend)),
		...(await measureCommands(backend)),
		...(await measureSnapshots(backend, folder.path)),
		...(await measureStaging(backend, folder.path)),
	];
	const load = loadavg()[0]!.toFixed(1);
	const { rows: agentRows, verification } = await measureAgent();
	rows.push(await besideBareVerification(verification, folder.path));
	print(`Milliseconds, median (p95, least). ${cpus().length} cores, load ${load}.`);
	print("");
	print("| what | box | bare | bare is |");
	print("|---|---|---|---|");
	for (const { what, box, bare, bareWhat } of rows) {
		print(`| ${what} | ${summary(box)} | ${bare === null ? "–" : summary(bare)} | ${bareWhat} |`);
	}
	printAgent(print, agentRows);
}

async function measureLife(backend: Backend): Promise<Row[]> {
	const times = { open: [] as number[], kill: [] as number[], freeze: [] as number[], thaw: [] as number[] };
	const bare = { start: [] as number[], kill: [] as number[] };
	for (let round = 0; round < OPENS; round += 1) {
		const [box, openMs] = await timed(() => openBox(backend));
		times.open.push(openMs);
		times.freeze.push(await clock(() => box.freeze()));
		times.thaw.push(
			await clock(async () => {
				await box.thaw();
				await box.exec(["true"]);
			}),
		);
		times.kill.push(await clock(async () => box[Symbol.asyncDispose]()));
		const [child, startMs] = await timed(startRuntime);
		bare.start.push(startMs);
		bare.kill.push(
			await clock(async () => {
				child.kill("SIGKILL");
				await once(child, "exit");
			}),
		);
	}
	return [
		{
			what: "open",
			box: times.open,
			bare: bare.start,
			bareWhat: "the same runtime, started until it speaks",
		},
		{ what: "kill, everything removed", box: times.kill, bare: bare.kill, bareWhat: "SIGKILL until exit" },
		{ what: "freeze", box: times.freeze, bare: null, bareWhat: "" },
		{ what: "thaw and run `true`", box: times.thaw, bare: null, bareWhat: "" },
	];
}

async function measureCommands(backend: Backend): Promise<Row[]> {
	await using box = await openBox(backend);
	const commands = [["true"], ["bash", "-c", "true"]];
	const rows = commands.map((argv) => ({
		what: `exec \`${argv.join(" ")}\``,
		argv,
		box: [] as number[],
		bare: [] as number[],
	}));
	const file = { box: [] as number[] };
	for (let round = 0; round < COMMANDS; round += 1) {
		for (const row of rows) {
			row.box.push(await clock(() => box.exec(row.argv)));
			row.bare.push(await clock(() => run(row.argv)));
		}
		file.box.push(await clock(() => box.writeFile("note", "hello")));
	}
	return [
		...rows.map(({ what, box, bare }) => ({ what, box, bare, bareWhat: "spawn until exit" })),
		{ what: "write a small file", box: file.box, bare: null, bareWhat: "" },
	];
}

async function measureSnapshots(backend: Backend, folder: string): Promise<Row[]> {
	await using box = await openBox(backend);
	await using clean = await openBox(backend);
	await fill(folder);
	const tar = spawn("tar", ["-C", folder, "-cf", "-", "."], { stdio: ["ignore", "pipe", "inherit"] });
	await box.unpack(tar.stdout);
	const rows = {
		pack: { box: [] as number[], bare: [] as number[] },
		move: { box: [] as number[], bare: [] as number[] },
	};
	for (let round = 0; round < SNAPSHOTS; round += 1) {
		rows.pack.box.push(await clock(() => box.pack(new PassThrough().resume())));
		rows.pack.bare.push(await clock(() => run(["bash", "-c", `tar -C ${folder} -cf - . | cat > /dev/null`])));
		await clean.exec("rm -rf /home/user/*");
		rows.move.box.push(await clock(() => move(box, clean)));
		const target = join(folder, "..", `copy-${round}`);
		await mkdir(target);
		rows.move.bare.push(
			await clock(() => run(["bash", "-c", `tar -C ${folder} -cf - . | tar -C ${target} -xf -`])),
		);
	}
	const size = `${FILES} files, ${Math.round((FILES * FILE_BYTES) / 1e6)} MB`;
	return [
		{ what: `snapshot of home (${size})`, ...rows.pack, bareWhat: "tar to /dev/null" },
		{ what: "home from box to box", ...rows.move, bareWhat: "tar to tar on the disk" },
	];
}

/** A task of many small files, as a rollout stages it. */
async function measureStaging(backend: Backend, folder: string): Promise<Row[]> {
	await using box = await openBox(backend);
	const rows: Row[] = [];
	for (const count of STAGED_FILES) {
		const files = Array.from({ length: count }, (_, index) => ({
			path: `staged/${index % 100}/${index}.txt`,
			data: `file ${index}\n${"x".repeat(index % 500)}`,
		}));
		const row: Row = {
			what: `stage ${count} small files`,
			box: [],
			bare: [],
			bareWhat: "one program writes them",
		};
		for (let round = 0; round < STAGINGS; round += 1) {
			row.box.push(await clock(() => box.writeFiles(files)));
			await box.exec(["rm", "-r", "staged"]);
			row.bare!.push(await clock(() => writeBare(join(folder, "..", `staged-${count}-${round}`), files)));
		}
		rows.push(row);
	}
	return rows;
}

async function writeBare(folder: string, files: { path: string; data: string }[]): Promise<void> {
	for (const { path, data } of files) {
		const target = join(folder, path);
		mkdirSync(dirname(target), { recursive: true });
		writeFileSync(target, data);
	}
}

/** By hand: the workdir is copied, and the same command run in the copy. */
async function besideBareVerification(verification: number[], folder: string): Promise<Row> {
	const small = join(folder, "..", "small");
	await mkdir(small);
	await writeFile(join(small, "one.txt"), "one\n");
	const bare: number[] = [];
	for (let round = 0; round < SNAPSHOTS; round += 1) {
		const copy = join(folder, "..", `verified-${round}`);
		bare.push(await clock(() => run(["bash", "-c", `cp -r ${small} ${copy} && cd ${copy} && ${VERIFY}`])));
	}
	return {
		what: "clean-box verification: the agent's last word to the reward",
		box: verification,
		bare,
		bareWhat: "copy the workdir, run the same command",
	};
}

function openBox(backend: Backend): Promise<Sandbox> {
	return backend.open({ spec: BoxSpec.parse({}), onGateway: (connection) => connection.destroy() });
}

async function move(from: Sandbox, to: Sandbox): Promise<void> {
	const pipe = new PassThrough();
	await Promise.all([from.pack(pipe), to.unpack(pipe)]);
}

async function startRuntime(): Promise<ChildProcess> {
	const env = { BUN_BE_BUN: "1", HOME: "/nowhere", PATH: "/usr/bin:/bin" };
	const program = "console.log(1);setInterval(()=>{},1e6)";
	const child = spawn(findAgentBinary(), ["-e", program], {
		cwd: "/",
		env,
		stdio: ["ignore", "pipe", "ignore"],
	});
	await once(child.stdout, "data");
	return child;
}

async function run(argv: string[]): Promise<void> {
	await once(spawn(argv[0]!, argv.slice(1), { stdio: ["ignore", "pipe", "pipe"] }), "close");
}

async function fill(folder: string): Promise<void> {
	for (let index = 0; index < FILES; index += 1) {
		await writeFile(join(folder, `file-${index}`), Buffer.alloc(FILE_BYTES, index));
	}
}

async function temporaryFolder(): Promise<AsyncDisposable & { path: string }> {
	const root = await mkdtemp(join(tmpdir(), "paddock-bench-"));
	const path = join(root, "files");
	await mkdir(path);
	return { path, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) };
}

async function clock(work: () => Promise<unknown>): Promise<number> {
	return (await timed(work))[1];
}

async function timed<T>(work: () => Promise<T>): Promise<[T, number]> {
	const startedAt = performance.now();
	const result = await work();
	return [result, performance.now() - startedAt];
}

function summary(times: number[]): string {
	const sorted = times.toSorted((a, b) => a - b);
	const at = (share: number) =>
		sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!.toFixed(1);
	return `${at(0.5)} (${at(0.95)}, ${at(0)})`;
}
