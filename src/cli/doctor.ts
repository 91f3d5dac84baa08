import { execFile } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { Backends } from "../backends.ts";
import { type Config, loadConfig } from "../config.ts";
import { messageOf, UsageError } from "../errors.ts";
import { type EndpointListing, listEndpoints, resolveEndpoint } from "../gateway/catalog.ts";
import { type EngineReport, examineEndpoint } from "../gateway/engines/examine.ts";
import { findAgentBinary } from "../host/binary.ts";
import type { Availability } from "../sandbox/sandbox.ts";
import { VERSION } from "../version.ts";
import type { Command } from "./command.ts";
import { openHere } from "./open-here.ts";
import { printLine, type Shell } from "./shell.ts";
import { showBytes } from "./terminal/figures.ts";
import { oneLine, type Paint, paintFor } from "./terminal/style.ts";

const run = promisify(execFile);

/** As wide as the longest name of a check. */
const NAME_WIDTH = 29;

export const doctor: Command = {
	name: "doctor",
	operands: "",
	summary: "explain this machine: which sandboxes, programs and endpoints work, and how to fix the rest",
	options: { json: { help: "all of it as one JSON object" } },
	examples: [{ line: "paddock doctor", says: "exit code 0 when the configured sandbox works, else 1" }],
	async run(args, shell) {
		const config = loadConfig(shell.env, shell.directory);
		const report = await examine(config);
		if (args.has("json")) printLine(shell.stdout, JSON.stringify(report));
		else printReport(report, config, shell);
		return report.sandboxes[config.sandbox]?.ok === true ? 0 : 1;
	},
};

type Check = Availability["checks"][number];

interface Report {
	version: string;
	machine: Check[];
	sandboxes: Record<string, Availability>;
	endpoints: EndpointRow[];
}

interface EndpointRow {
	name: string;
	configured: boolean;
	detail: string;
	/** What its engine answered to a few tokens' worth of questions; null when it was not asked. */
	engine: EngineReport | null;
}

async function examine(config: Config): Promise<Report> {
	await using backends = new Backends(config, () => {});
	return {
		version: VERSION,
		machine: [
			{
				name: "cores",
				ok: true,
				detail: `${availableParallelism()}, ${config.concurrency} rollouts at a time`,
			},
			{ name: "memory", ok: true, detail: showBytes(totalmem()) },
			{ name: "node", ok: true, detail: process.version },
			await agentVersion(),
			await versionOf("rg", "rg", ["--version"], "install ripgrep, e.g. apt-get install ripgrep"),
			await versionOf("git", "git", ["--version"], "install git, e.g. apt-get install git"),
			dataFolder(config.home),
			await database(config),
		],
		sandboxes: await backends.availabilities(),
		endpoints: await Promise.all(listEndpoints(config.env).map((listing) => endpointRow(listing, config))),
	};
}

/** Engines of one's own are asked what they hand out; others know no ids, and take money for every token. */
async function endpointRow(listing: EndpointListing, config: Config): Promise<EndpointRow> {
	const { name, configured, baseUrl, model, note } = listing;
	const detail = [baseUrl, model, note].filter(Boolean).join(", ");
	const endpoint =
		configured && baseUrl !== null ? resolveEndpoint({ type: "named", name }, config.env) : "policy";
	const isOwn = endpoint !== "policy" && ["vllm", "sglang", "auto"].includes(endpoint.dialect);
	return { name, configured, detail, engine: isOwn ? await examineEndpoint(endpoint) : null };
}

function describeEngine(engine: EngineReport): string {
	if (engine.trouble !== null) return `does not answer: ${engine.trouble}`;
	return [
		`${engine.name ?? engine.dialect} answers`,
		engine.handsOutIds ? "with token ids" : "without token ids",
		`logprobs: ${engine.logprobsMode ?? "of what, its answers do not show"}`,
		...(engine.stitching === undefined ? [] : [describeStitching(engine.stitching)]),
		...(engine.refused.length > 0 ? [`refuses ${engine.refused.join(", ")}`] : []),
	].join("; ");
}

/** An engine that leaves two such prompts aside gets none any more, and rollouts on it fork where a history comes back as other tokens. */
function describeStitching(trouble: string | null): string {
	return trouble === null ? "sessions stay one chain of tokens" : `sessions are left to fork: ${trouble}`;
}

async function agentVersion(): Promise<Check> {
	try {
		return await versionOf("opencode", findAgentBinary(), ["--version"], "npm install");
	} catch (error) {
		return { name: "opencode", ok: false, detail: messageOf(error), fix: "npm install" };
	}
}

async function versionOf(name: string, file: string, args: string[], fix: string): Promise<Check> {
	try {
		const { stdout } = await run(file, args, { timeout: 20_000 });
		return { name, ok: true, detail: stdout.trim().split("\n")[0] ?? "" };
	} catch (error) {
		const code = (error as NodeJS.ErrnoException).code;
		return { name, ok: false, detail: code === "ENOENT" ? "not found" : `does not run (${code})`, fix };
	}
}

function dataFolder(home: string): Check {
	try {
		const place = existsSync(home) ? home : dirname(home);
		if (existsSync(place)) accessSync(place, constants.W_OK);
		return { name: "data", ok: true, detail: home };
	} catch {
		return {
			name: "data",
			ok: false,
			detail: `${home} cannot be written`,
			fix: "set PADDOCK_HOME to another folder",
		};
	}
}

/** Opened for real where it is a server of its own; the embedded one is left alone, or asking would create it. */
async function database(config: Config): Promise<Check> {
	const name = "database";
	if (config.databaseUrl === null) return { name, ok: true, detail: "embedded, in the data folder" };
	try {
		await using _paddock = await openHere(config);
		return { name, ok: true, detail: "PostgreSQL (PADDOCK_DATABASE_URL)" };
	} catch (error) {
		if (error instanceof UsageError && error.code === "bad_key_file")
			return { name, ok: false, detail: error.message, fix: "copy secret.key from the first machine" };
		const detail = `PostgreSQL does not answer: ${messageOf(error)}`;
		return { name, ok: false, detail, fix: "check PADDOCK_DATABASE_URL" };
	}
}

function printReport(report: Report, config: Config, shell: Shell): void {
	const paint = paintFor(shell.stdout, shell.env);
	const title = (text: string) => printLine(shell.stdout, `\n${paint("bold", text)}`);
	printLine(shell.stdout, `Paddock ${report.version}`);
	title("Machine");
	for (const check of report.machine) printCheck(check, shell, paint);
	for (const [name, { ok, checks }] of Object.entries(report.sandboxes)) {
		const chosen = name === config.sandbox ? " (the one in use)" : "";
		title(`Sandbox ${name}${chosen}: ${ok ? "works" : "not available"}`);
		for (const check of checks) printCheck(check, shell, paint);
	}
	title("Endpoints");
	for (const { name, configured, detail, engine } of report.endpoints) {
		const mark = configured
			? engine?.trouble
				? paint("red", "no")
				: paint("green", "ok")
			: paint("dim", "– ");
		printLine(shell.stdout, `  ${mark}  ${name.padEnd(NAME_WIDTH)} ${detail}`);
		if (engine) printLine(shell.stdout, `      ${"".padEnd(NAME_WIDTH)} ${oneLine(describeEngine(engine))}`);
	}
}

function printCheck(check: Check, shell: Shell, paint: Paint): void {
	const mark = check.ok ? paint("green", "ok") : paint("red", "no");
	printLine(shell.stdout, `  ${mark}  ${check.name.padEnd(NAME_WIDTH)} ${check.detail}`);
	if (!check.ok && check.fix !== undefined) {
		printLine(shell.stdout, `      ${"".padEnd(NAME_WIDTH)} ${paint("yellow", `fix: ${check.fix}`)}`);
	}
}
