import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import { openDockerBackend } from "../../src/sandbox/docker/docker.ts";
import type { Backend } from "../../src/sandbox/sandbox.ts";
import { loadTask } from "../../src/task/load.ts";
import { missingForEngine, startEngine, type TestEngine } from "../fixtures/docker-engine.ts";
import { requirePart } from "../fixtures/parts.ts";
import { conformance } from "./conformance.ts";
import { expectWalls, makeOwnFolder, openIn } from "./own-folder.ts";
import { expectGuardedWayOut } from "./way-out.ts";

const run = promisify(execFile);
const ORPHAN_MAKER = join(import.meta.dirname, "docker-orphan-program.ts");

const missing = missingForEngine("docker");
let engine: TestEngine;

beforeAll(async () => {
	if (missing === null) engine = await startEngine("docker");
});
afterAll(async () => {
	if (missing === null) await engine[Symbol.asyncDispose]();
});

conformance({
	name: "docker",
	isolated: true,
	missing: async () => missing,
	open: () => openDockerBackend({ env: engine.env }),
});

describe("the docker backend", () => {
	let backend: Backend;
	let root: string;
	const here = (context: TestContext) => requirePart(context, "Docker", missing === null, missing ?? "");
	const open = (spec: Partial<BoxSpec> = {}) =>
		backend.open({ spec: BoxSpec.parse(spec), onGateway: (connection) => connection.destroy() });
	const containers = () => engine.docker.listContainers({ all: true });

	beforeAll(async () => {
		root = await mkdtemp(join(tmpdir(), "pd-"));
		if (missing === null) backend = await openDockerBackend({ env: engine.env, runRoot: root });
	});
	afterAll(async () => {
		if (missing === null) await backend[Symbol.asyncDispose]();
		await rm(root, { recursive: true, force: true });
	});

	test("a box in a folder of this machine reads and writes it, and nothing else of the machine", async (context) => {
		here(context);
		await using place = await makeOwnFolder();
		await using box = await openIn(backend, place.folder);
		await expectWalls(box, place);
	});

	test("the self-test opens a real box and finds everything in order", async (context) => {
		here(context);
		const { ok, checks } = await backend.available();
		expect(checks.filter((check) => !check.ok)).toEqual([]);
		expect(checks.map((check) => check.name)).toContain("opens a box");
		expect(ok).toBe(true);
	});

	test("a box has no capabilities, no privileges to gain, no network, and a read-only system", async (context) => {
		here(context);
		await using box = await open();
		const status = (await box.exec("cat /proc/self/status")).stdout;
		expect(status).toMatch(/CapEff:\t0+\n/);
		expect(status).toMatch(/CapBnd:\t0+\n/);
		expect(status).toMatch(/NoNewPrivs:\t1\n/);
		expect(status).toMatch(/Seccomp:\t2\n/);
		expect(Number((await box.exec("id -u")).stdout)).toBeGreaterThanOrEqual(59_000);
		expect((await box.exec("ls /sys/class/net")).stdout).toBe("lo\n");
		expect((await box.exec("touch /x /usr/x /var/tmp/x /run/box/x")).stderr.match(/Read-only/g)).toHaveLength(
			4,
		);
	});

	test("what a box may use is limited by the engine", async (context) => {
		here(context);
		await using box = await open({ memoryMb: 512, diskMb: 64, pids: 100, cpus: 0.5 });
		const [container] = await engine.docker.listContainers({ filters: { label: [`paddock.box=${box.id}`] } });
		const { HostConfig } = await engine.docker.getContainer(container!.Id).inspect();
		expect(HostConfig).toMatchObject({
			NanoCpus: 5e8,
			PidsLimit: 164,
			Memory: (512 + 64 + 256 + 64) * 1024 * 1024,
		});
		const bomb = await box.exec("for i in $(seq 300); do sleep 60 & done; wait", { timeoutMs: 10_000 });
		expect(bomb.stderr).toContain("Resource temporarily unavailable");
		await box.killAll();
		expect((await box.exec("echo alive")).stdout).toBe("alive\n");
	});

	test("the task's own image is built from its folder, once, and its environment holds", async (context) => {
		here(context);
		const folder = join(root, "image");
		await mkdir(join(folder, "data"), { recursive: true });
		await writeFile(join(folder, "data/greeting"), "from the image\n");
		await writeFile(
			join(folder, "Dockerfile"),
			"FROM paddock-task\nENV GREETING=hello\nCOPY data /opt/data\n",
		);
		await using box = await open({ image: folder });
		expect((await box.exec('cat /opt/data/greeting; echo "$GREETING"')).stdout).toBe(
			"from the image\nhello\n",
		);
		const before = await engine.docker.listImages();
		await using again = await open({ image: folder });
		expect(again.facts.image).toBe(box.facts.image);
		expect(await engine.docker.listImages()).toHaveLength(before.length);
	});

	test("a volume of an image holds no more than home may, and leaves nothing behind", async (context) => {
		here(context);
		const folder = join(root, "with-volume");
		await mkdir(folder, { recursive: true });
		await writeFile(join(folder, "Dockerfile"), "FROM paddock-task\nVOLUME /data\n");
		const before = (await engine.docker.listVolumes()).Volumes.length;
		const box = await open({ image: folder, diskMb: 16 });
		const fill = "head -c 40000000 /dev/zero > /data/much; stat -c %s /data/much; findmnt -n -o FSTYPE /data";
		const { stdout, stderr } = await box.exec(fill);
		expect(stderr).toContain("No space left");
		expect(stdout).toBe(`${16 * 1024 * 1024}\ntmpfs\n`);
		await box[Symbol.asyncDispose]();
		expect((await engine.docker.listVolumes()).Volumes).toHaveLength(before);
	});

	test("a task names its image's folder relative to itself", async (context) => {
		here(context);
		const folder = join(root, "task");
		await mkdir(join(folder, "image"), { recursive: true });
		await writeFile(join(folder, "image/Dockerfile"), "FROM paddock-task\nENV FROM_TASK=yes\n");
		await writeFile(join(folder, "task.yaml"), "instruction: Do it.\nbox:\n  image: ./image\n");
		const { box: spec } = await loadTask(folder);
		await using box = await open(spec);
		expect((await box.exec('echo "$FROM_TASK"')).stdout).toBe("yes\n");
	});

	test("the way out is the host's proxy alone", async (context) => {
		here(context);
		await expectGuardedWayOut(backend);
	});

	test("an image that is nowhere says so, and leaves nothing", async (context) => {
		here(context);
		await expect(open({ image: "localhost:1/no/such:image" })).rejects.toMatchObject({
			code: "image_missing",
		});
		await expect(open({ image: join(root, "absent") })).rejects.toMatchObject({ code: "image_build_failed" });
		expect(await containers()).toEqual([]);
	});

	test("a closed box leaves no container, no folder and no record", async (context) => {
		here(context);
		const box = await open();
		expect(await containers()).toHaveLength(1);
		await box[Symbol.asyncDispose]();
		expect(await containers()).toEqual([]);
		expect(await readdir(join(root, "docker"))).toEqual([]);
		expect(await readdir(join(root, "docker-leases"))).toEqual([]);
	});

	test("boxes of a killed owner are reaped, also those without a record, and nobody else's", async (context) => {
		here(context);
		await using mine = await open();
		const owner = spawn(process.execPath, [ORPHAN_MAKER, root], {
			env: { ...process.env, ...engine.env },
			stdio: ["ignore", "pipe", "inherit"],
		});
		const [boxId] = String((await once(owner.stdout!, "data"))[0]).split("\n");
		const orphan = { filters: { label: [`paddock.box=${boxId}`] }, all: true };
		const [container] = await engine.docker.listContainers(orphan);
		await engine.docker.getContainer(container!.Id).pause();
		owner.kill("SIGKILL");
		await once(owner, "exit");
		expect(await engine.docker.listContainers(orphan)).toHaveLength(1);
		expect(await backend.reap()).toBe(1);
		expect(await engine.docker.listContainers(orphan)).toEqual([]);
		expect(existsSync(join(root, "docker", boxId!))).toBe(false);
		expect((await mine.exec("echo mine")).stdout).toBe("mine\n");
		expect(await backend.reap()).toBe(0);
	});

	test("an engine on another machine is refused in words", async () => {
		await expect(openDockerBackend({ env: { DOCKER_HOST: "tcp://10.0.0.1:2375" } })).rejects.toMatchObject({
			code: "docker_not_local",
		});
	});

	test("an engine that does not answer is a failure one can retry, and a finding of the self-test", async () => {
		await using lonely = await openDockerBackend({
			env: { DOCKER_HOST: "unix:///nowhere/d.sock" },
			runRoot: root,
		});
		const spec = BoxSpec.parse({});
		await expect(lonely.open({ spec, onGateway: () => {} })).rejects.toMatchObject({
			code: "engine_unreachable",
			retryable: true,
		});
		expect(await lonely.available()).toMatchObject({ ok: false, checks: [{ name: "engine", ok: false }] });
	});
});

test("no firewall rule, bridge or mount of the test's engine stays behind", async (context) => {
	requirePart(context, "Docker", missing === null, missing ?? "");
	const { stdout } = await run("ls", ["/sys/class/net"]);
	expect(stdout).not.toContain("docker0");
});
