import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import { openE2bBackend } from "../../src/sandbox/e2b/e2b.ts";
import { buildE2bTemplate } from "../../src/sandbox/e2b/template.ts";
import type { Backend } from "../../src/sandbox/sandbox.ts";
import { missingForE2b, type StandInE2b, startE2b } from "../fakes/e2b.ts";
import { requirePart } from "../fixtures/parts.ts";
import { conformance } from "./conformance.ts";
import { expectSlowReaderLosesNothing } from "./slow-reader.ts";
import { expectGuardedWayOut } from "./way-out.ts";

const ORPHAN_MAKER = join(import.meta.dirname, "e2b-orphan-program.ts");

// The official SDK and real processes, against a local stand-in of the E2B service: no account is at hand.
const missing = missingForE2b();
let service: StandInE2b;

beforeAll(async () => {
	if (missing === null) service = await startE2b();
});
afterAll(async () => {
	if (missing === null) await service[Symbol.asyncDispose]();
});

const here = (context: TestContext) => requirePart(context, "the stand-in", missing === null, missing ?? "");
const openBackend = (env: Record<string, string> = {}, warn = (_: string) => {}) =>
	openE2bBackend({ env: { ...service.env, ...env }, warn });
const openBox = (backend: Backend, spec: Partial<BoxSpec> = {}) =>
	backend.open({ spec: BoxSpec.parse(spec), onGateway: (connection) => connection.destroy() });

conformance({
	name: "e2b",
	isolated: true,
	missing: async () => missing,
	open: () => openBackend(),
});

describe("an E2B machine (stand-in)", () => {
	test("has no way to the internet, labels that say whose it is, and ends with its box", async (context) => {
		here(context);
		await using backend = await openBackend();
		const box = await openBox(backend);
		const machine = service.machines().find(({ metadata }) => metadata["paddock.box"] === box.id);
		expect(machine).toMatchObject({ template: "paddock", internet: false });
		expect(JSON.parse(machine!.metadata["paddock.owner"]!)).toMatchObject({ pid: process.pid });
		await box[Symbol.asyncDispose]();
		expect(service.machines()).toEqual([]);
	});

	test("gives its box neither privileges nor the guardian's programs to change", async (context) => {
		here(context);
		await using backend = await openBackend();
		await using box = await openBox(backend);
		const status = (await box.exec("cat /proc/self/status")).stdout;
		expect(status).toMatch(/CapBnd:\t0+\n/);
		expect(status).toMatch(/NoNewPrivs:\t1\n/);
		expect((await box.exec("id -u")).stdout).toBe("1000\n");
		const { stdout } = await box.exec(
			"for f in /opt/agent/*; do [ -w $f ] && echo $f; done; pgrep -f bridge.ts",
		);
		expect(stdout).toBe("");
	});

	test("without OpenCode in its template gets it once, not once per box", {
		timeout: 120_000,
	}, async (context) => {
		here(context);
		const warnings: string[] = [];
		await using backend = await openBackend({ PADDOCK_E2B_TEMPLATE: "bare" }, (m) => warnings.push(m));
		await using _one = await openBox(backend);
		const [snapshot] = service.templates().filter((name) => name.startsWith("bare-opencode-"));
		await using _two = await openBox(backend);
		await using later = await openBackend({ PADDOCK_E2B_TEMPLATE: "bare" }, (m) => warnings.push(m));
		await using three = await openBox(later);
		expect((await three.exec("/opt/agent/opencode --version")).exitCode).toBe(0);
		expect(service.machines().map(({ template }) => template)).toEqual([snapshot, snapshot, snapshot]);
		expect(warnings).toHaveLength(1);
		expect(warnings[0]).toContain("paddock e2b build-template");
	});

	test("that vanishes is a lost box, which may be tried again", async (context) => {
		here(context);
		await using backend = await openBackend();
		const box = await openBox(backend);
		const lost = box.exec("sleep 600");
		lost.catch(() => {});
		await service.lose(String(box.facts.machine));
		await box.closed;
		await expect(lost).rejects.toMatchObject({ boundary: "sandbox", code: "box_lost", retryable: true });
	});

	test("of a killed owner is reaped, and nobody else's", async (context) => {
		here(context);
		await using backend = await openBackend();
		await using mine = await openBox(backend);
		const owner = spawn(process.execPath, [ORPHAN_MAKER], {
			env: { ...process.env, ...service.env },
			stdio: ["ignore", "pipe", "inherit"],
		});
		const boxId = String((await once(owner.stdout!, "data"))[0]).trim();
		const boxes = () => service.machines().map(({ metadata }) => metadata["paddock.box"]);
		owner.kill("SIGKILL");
		await once(owner, "exit");
		expect(boxes()).toContain(boxId);
		expect(await backend.reap()).toBe(1);
		expect(boxes()).toEqual([mine.id]);
		expect(await backend.reap()).toBe(0);
	});

	test("a wrong key and an unknown template are told apart", async (context) => {
		here(context);
		await using stranger = await openBackend({ E2B_API_KEY: `e2b_${"f".repeat(40)}` });
		await expect(openBox(stranger)).rejects.toMatchObject({ code: "e2b_login_refused", retryable: false });
		await using backend = await openBackend();
		await expect(openBox(backend, { template: "nowhere" })).rejects.toMatchObject({
			code: "e2b_template_unusable",
		});
		expect(service.machines()).toEqual([]);
	});

	test("lets a box out through the host's proxy alone", async (context) => {
		here(context);
		await using backend = await openBackend();
		await expectGuardedWayOut(backend);
	});

	test("is built with OpenCode in it by the official template builder", async (context) => {
		here(context);
		const lines: string[] = [];
		const { templateId } = await buildE2bTemplate({
			name: "mine",
			env: service.env,
			onLog: (line) => lines.push(line),
		});
		const [built] = service.builds();
		expect(built).toMatchObject({ templateId, name: "mine", cpuCount: 2, memoryMB: 4096 });
		expect(built!.steps.find(({ type }) => type === "COPY")?.args).toContain("/opt/agent/opencode");
		expect(built!.steps.map(({ args }) => args.join(" ")).join("\n")).toContain("ripgrep");
		expect(built!.uploadedBytes).toBeGreaterThan(10_000_000);
		expect(lines).toContain("built");
	});

	test("passes on all of an answer to a box that reads slowly", async (context) => {
		here(context);
		await using backend = await openBackend();
		await expectSlowReaderLosesNothing(backend);
	});

	test("passes the self-test", async (context) => {
		here(context);
		await using backend = await openBackend();
		expect(await backend.available()).toMatchObject({ ok: true });
	});
});

test("without a key there is no backend", async () => {
	await expect(openE2bBackend({ env: {}, warn: () => {} })).rejects.toMatchObject({
		code: "e2b_not_configured",
	});
});
